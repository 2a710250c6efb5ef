//! Manual pages and completions come from the definition of the command line and from the table of
//! configuration keys. What is made is committed, so that a package needs no more than to copy it.

use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use musterd::client::args;
use musterd::config::Config;
use musterd::daemon::Options;
use musterd::dbus::contract::{MANAGER_INTERFACE, WORKER_INTERFACE};
use musterd::dbus::errors::Code;
use musterd::dbus::spec::SPAWN_KEYS;

use super::shipped;

/// Of the last change of the texts, as manual pages have it.
const DATE: &str = "2026-11-30";
const SOURCE: &str = concat!("musterd ", env!("CARGO_PKG_VERSION"));
const MAN: &str = "packaging/man";
const COMPLETIONS: &str = "packaging/completions";

fn man(command: Command, section: &str, manual: &str) -> Man {
    Man::new(command)
        .section(section)
        .date(DATE)
        .source(SOURCE)
        .manual(manual)
}

/// The parts of a page that `write` renders, as text.
fn rendered(write: impl Fn(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut page = Vec::new();
    write(&mut page).unwrap();
    let text = String::from_utf8(page).unwrap();
    // A preamble stands before every part; and mandoc knows no string Aq.
    let lines = text
        .lines()
        .filter(|line| !(line.starts_with(".ie \\n(.g") || line.starts_with(".el .ds Aq")));
    lines
        .map(|line| line.trim_end().replace("\\*(Aq", "\\(aq") + "\n")
        .collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
}

/// The definition with everything hidden that each verb takes.
fn musterctl() -> Command {
    let mut command = args::command().disable_help_subcommand(true);
    command.build();
    command
}

fn verbs(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set())
}

/// One page a verb.
fn verb_page(verb: &Command) -> String {
    let common =
        |arg: &Arg| arg.is_global_set() || arg.get_id() == "help" || arg.get_id() == "version";
    let verb = verb.clone().mut_args(|arg| {
        let hide = common(&arg);
        arg.hide(hide)
    });
    let aliases: Vec<String> = verb
        .get_visible_aliases()
        .map(|a| format!("\\fB{a}\\fR"))
        .collect();
    let has_options = verb.get_arguments().any(|arg| !arg.is_hide_set());
    let page = man(verb, "1", "musterctl");
    let mut text = rendered(|w| {
        page.render_title(w)?;
        page.render_name_section(w)?;
        page.render_synopsis_section(w)?;
        page.render_description_section(w)?;
        if has_options {
            page.render_options_section(w)?;
        }
        Ok(())
    });
    if !aliases.is_empty() {
        text += &format!(".SH ALIASES\n{}\n", aliases.join(", "));
    }
    text + ".SH \"SEE ALSO\"\n.BR musterctl (1),\nwhich has the options that every verb takes, \
            what a WORKER is, and the exit codes;\n.BR musterd (8)\n"
}

/// The list of verbs for the page of all of them.
fn verb_list(command: &Command) -> String {
    let mut text = String::new();
    for verb in verbs(command) {
        let about = verb.get_about().unwrap().to_string();
        text += &format!(
            ".TP\n.BR musterctl\\-{} (1)\n{}\n",
            escaped(verb.get_name()),
            escaped(&about)
        );
    }
    text
}

/// `[default: x]` and the like belong into the text of an option, so clap's rendering stays.
fn options(command: Command) -> String {
    let page = man(command, "1", "");
    rendered(|w| page.render_options_section(w))
}

/// Every key with its default, its unit and its reason.
fn keys() -> String {
    let default = Config::default();
    let mut text = String::new();
    for section in Config::SECTIONS {
        text += &format!(
            ".SS [{section}]\n{}\n",
            escaped(Config::about(section).trim())
        );
        for key in Config::keys(section).unwrap() {
            let value = default.show(section, key.name).unwrap();
            let shape = escaped(key.shape).replace('"', "\\(dq");
            text += &format!(
                ".TP\n.BI {} \" = {}\"\n{}\n({}{}.)\n",
                key.name,
                escaped(&value).replace('"', "\\(dq"),
                escaped(key.why.trim()),
                shape[..1].to_uppercase(),
                &shape[1..],
            );
        }
    }
    text
}

/// A page whose text is written by hand, with what is made put in.
fn page(name: &str, parts: &[(&str, String)]) -> Option<(String, String)> {
    let mut text = shipped(&format!("{MAN}/{name}.in"))?;
    let head = format!(".\\\" Made from {name}.in; do not edit.\n");
    for (mark, part) in parts {
        assert!(text.contains(&format!("{mark}\n")), "{name}: no {mark}");
        text = text.replace(&format!("{mark}\n"), part);
    }
    text = text.replace("@DATE@", DATE).replace("@SOURCE@", SOURCE);
    Some((format!("{MAN}/{name}"), head + &text))
}

/// Verbs that take a WORKER from those there are; what `restore` takes is on no list.
fn with_workers(command: &Command) -> String {
    let takes = |verb: &&Command| {
        verb.get_name() != "restore"
            && verb.get_positionals().any(|arg| {
                arg.get_value_names()
                    .is_some_and(|names| names.iter().any(|n| n == "WORKER"))
            })
    };
    let names: Vec<&str> = verbs(command)
        .filter(takes)
        .map(Command::get_name)
        .collect();
    names.join(" ")
}

/// What clap makes, and after it what completes workers.
fn completion(shell: Shell, name: &str, addition: &str) -> Option<(String, String)> {
    let mut made = Vec::new();
    let mut command = args::command().disable_help_subcommand(true);
    clap_complete::generate(shell, &mut command, "musterctl", &mut made);
    let made = String::from_utf8(made).unwrap();
    let addition = shipped(&format!("{COMPLETIONS}/{addition}"))?;
    let addition = addition.replace("@VERBS@", &with_workers(&musterctl()));
    let made = match shell {
        // A worker is completed where zsh would offer files.
        Shell::Zsh => made
            .lines()
            .map(
                |line| match line.contains("worker") && line.contains(":_default'") {
                    true => line.replace(":_default'", ":_musterctl_workers'") + "\n",
                    false => format!("{line}\n"),
                },
            )
            .collect(),
        _ => made,
    };
    let whole = match shell {
        // Its last lines run it, so what it needs stands before.
        Shell::Zsh => made.replacen(
            "\nautoload -U is-at-least\n",
            &format!("\nautoload -U is-at-least\n\n{addition}"),
            1,
        ),
        _ => made + &addition,
    };
    Some((format!("{COMPLETIONS}/{name}"), whole))
}

fn all() -> Option<Vec<(String, String)>> {
    let command = musterctl();
    let mut all: Vec<(String, String)> = verbs(&command)
        .map(|verb| {
            (
                format!("{MAN}/musterctl-{}.1", verb.get_name()),
                verb_page(verb),
            )
        })
        .collect();
    all.push(page(
        "musterctl.1",
        &[
            ("@OPTIONS@", options(command.clone())),
            ("@VERBS@", verb_list(&command)),
        ],
    )?);
    all.push(page(
        "musterd.8",
        &[("@OPTIONS@", options(Options::command()))],
    )?);
    all.push(page("musterd.toml.5", &[("@KEYS@", keys())])?);
    all.push(page("musterd.service.8", &[])?);
    all.push(page("org.muster1.5", &[])?);
    all.push(completion(Shell::Bash, "musterctl.bash", "workers.bash")?);
    all.push(completion(Shell::Zsh, "_musterctl", "workers.zsh")?);
    all.push(completion(Shell::Fish, "musterctl.fish", "workers.fish")?);
    Some(all)
}

#[test]
fn the_pages_and_completions_that_are_shipped_are_those_of_the_definition() {
    let Some(all) = all() else { return };
    // Run with MUSTERD_WRITE_PAGES=1 after a change of the command line or the configuration.
    let write = std::env::var_os("MUSTERD_WRITE_PAGES").is_some();
    for (path, text) in &all {
        if write {
            std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(path), text).unwrap();
        }
        assert!(
            shipped(path).as_deref() == Some(text),
            "{path} is not what the code makes: run MUSTERD_WRITE_PAGES=1 cargo test --test packaging"
        );
    }
}

/// A page as one reads it, without what sets its letters.
fn read(name: &str) -> Option<String> {
    let text = shipped(&format!("{MAN}/{name}"))?;
    Some(
        text.replace("\\fB", "")
            .replace("\\fR", "")
            .replace("\\-", "-"),
    )
}

#[test]
fn the_page_of_the_bus_names_every_method_property_signal_error_and_key() {
    let Some(page) = read("org.muster1.5") else {
        return;
    };
    // From one heading to the next.
    let part = |heading: &str| {
        let (_, rest) = page.split_once(heading).unwrap();
        let end = rest.find("\n.S").unwrap();
        rest[..end].to_owned()
    };
    let has = |text: &str, line: String| {
        assert!(text.contains(&format!("\n{line}")), "no {line:?}");
    };
    for (interface, name) in [
        (&MANAGER_INTERFACE, "Manager"),
        (&WORKER_INTERFACE, "Worker"),
    ] {
        let methods = part(&format!("METHODS OF org.muster1.{name}\""));
        let properties = part(&format!("PROPERTIES OF org.muster1.{name}\""));
        for method in interface.methods {
            has(&methods, format!("{}(", method.name));
        }
        for property in interface.properties {
            has(
                &properties,
                format!("{} {}\n", property.name, property.signature),
            );
        }
        for (signal, _) in interface.signals {
            has(
                &part("SIGNALS OF org.muster1.Manager\""),
                format!("{signal}("),
            );
        }
        let told = |text: &str, tell: &str| text.matches(tell).count();
        assert_eq!(told(&methods, "\n.TP\n"), interface.methods.len());
        assert_eq!(told(&properties, "\n.TP\n"), interface.properties.len());
    }
    let keys = part("Keys of Spawn\"");
    for (key, signature) in SPAWN_KEYS
        .iter()
        .filter(|(key, _)| !key.ends_with("-bytes"))
    {
        has(&keys, format!("{key} {signature}\n"));
    }
    let errors = part(".SH ERRORS");
    for code in Code::ALL {
        match code.name().split_once(".Error.") {
            Some(("org.muster1", name)) => has(&errors, format!(".B {name}\n")),
            Some((_, name)) => assert!(errors.contains(name), "no {name}"),
            None => panic!("{code:?}"),
        }
    }
}

#[test]
fn every_page_of_a_verb_belongs_to_a_verb() {
    let Some(all) = all() else { return };
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(MAN);
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.starts_with("musterctl-") {
            let made = all.iter().any(|(path, _)| *path == format!("{MAN}/{name}"));
            assert!(made, "{name} is of no verb");
        }
    }
}
