//! The installed XML and the code's tables are the same contract.

use musterd::dbus::contract::{Emits, Interface, MANAGER_INTERFACE, WORKER_INTERFACE};
use musterd::dbus::convert::{CANCEL_KEYS, DRAIN_KEYS, FILTER_KEYS, FORGET_KEYS, REAP_KEYS};
use musterd::dbus::dict::Keys;
use musterd::dbus::spec::SPAWN_KEYS;

/// Attribute of an element's text.
fn attribute<'x>(element: &'x str, name: &str) -> Option<&'x str> {
    let start = element.find(&format!(" {name}=\""))? + name.len() + 3;
    element[start..].split('"').next()
}

/// Every `<tag …>` with what follows up to its end, comments taken out.
fn elements<'x>(xml: &'x str, tag: &str) -> Vec<&'x str> {
    let open = format!("<{tag} ");
    let close = format!("</{tag}>");
    xml.split(&open)
        .skip(1)
        .map(|rest| rest.split(&close).next().unwrap())
        .collect()
}

fn without_comments(xml: &str) -> String {
    let mut out = String::new();
    let mut rest = xml;
    while let Some((before, after)) = rest.split_once("<!--") {
        out.push_str(before);
        rest = after.split_once("-->").unwrap().1;
    }
    out + rest
}

fn signature(element: &str, direction: &str) -> String {
    elements(element, "arg")
        .into_iter()
        .map(|arg| arg.split('>').next().unwrap())
        .filter(|arg| attribute(&format!(" {arg}"), "direction").unwrap_or("out") == direction)
        .map(|arg| attribute(&format!(" {arg}"), "type").unwrap().to_owned())
        .collect()
}

fn name(element: &str) -> String {
    attribute(&format!(" {element}"), "name")
        .unwrap()
        .to_owned()
}

fn compare(interface: &Interface) {
    let xml = without_comments(interface.element());
    assert_eq!(attribute(&xml, "name"), Some(interface.name));
    let methods: Vec<_> = elements(&xml, "method")
        .into_iter()
        .map(|m| (name(m), signature(m, "in"), signature(m, "out")))
        .collect();
    let table: Vec<_> = interface
        .methods
        .iter()
        .map(|m| (m.name.to_owned(), m.takes.to_owned(), m.gives.to_owned()))
        .collect();
    assert_eq!(methods, table);
    let signals: Vec<_> = elements(&xml, "signal")
        .into_iter()
        .map(|s| (name(s), signature(s, "out")))
        .collect();
    let table: Vec<_> = interface
        .signals
        .iter()
        .map(|(name, signature)| (name.to_string(), signature.to_string()))
        .collect();
    assert_eq!(signals, table);
    let lines = xml.lines().filter(|line| line.contains("<property "));
    let properties: Vec<_> = lines.map(property).collect();
    let table: Vec<_> = interface
        .properties
        .iter()
        .map(|p| (p.name.to_owned(), p.signature.to_owned(), p.emits))
        .collect();
    assert_eq!(properties, table);
}

fn property(line: &str) -> (String, String, Emits) {
    assert_eq!(attribute(line, "access"), Some("read"), "{line}");
    let emits = match attribute(line, "value") {
        None => Emits::True,
        Some("const") => Emits::Const,
        Some("invalidates") => Emits::Invalidates,
        Some("false") => Emits::False,
        Some(other) => panic!("{other}"),
    };
    (
        attribute(line, "name").unwrap().to_owned(),
        attribute(line, "type").unwrap().to_owned(),
        emits,
    )
}

#[test]
fn the_installed_interfaces_and_the_tables_say_the_same() {
    compare(&MANAGER_INTERFACE);
    compare(&WORKER_INTERFACE);
}

/// `KEY SIGNATURE` pairs of a comment of the XML, from `first` up to `end`, sorted.
fn keys_in(first: &str, end: &str) -> Vec<(String, String)> {
    let xml = MANAGER_INTERFACE.xml;
    let text = &xml[xml.find(first).unwrap()..];
    let text = &text[..text.find(end).unwrap()];
    let (mut plain, mut depth) = (String::new(), 0);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let pair = |pair: &str| {
        let (key, signature) = pair.trim().split_once(' ').unwrap();
        (key.to_owned(), signature.trim().to_owned())
    };
    let mut keys: Vec<_> = plain.split(',').map(pair).collect();
    keys.sort();
    keys
}

/// A table without its `-bytes` twins, sorted.
fn table(keys: Keys) -> Vec<(String, String)> {
    let plain = keys.iter().filter(|(key, _)| !key.ends_with("-bytes"));
    let mut keys: Vec<_> = plain.map(|(k, s)| (k.to_string(), s.to_string())).collect();
    keys.sort();
    keys
}

#[test]
fn the_keys_of_every_dictionary_are_those_the_contract_documents() {
    assert_eq!(keys_in("argv as,", ".\n"), table(SPAWN_KEYS));
    assert_eq!(keys_in("all b, owner", ". Row"), table(FILTER_KEYS));
    assert_eq!(keys_in("now b (", ". Returns"), table(CANCEL_KEYS));
    assert_eq!(keys_in("dry-run b", ". counts"), table(REAP_KEYS));
    assert_eq!(keys_in("force b (", ". -->"), table(FORGET_KEYS));
    assert_eq!(keys_in("cancel b (end", ". Resume"), table(DRAIN_KEYS));
}
