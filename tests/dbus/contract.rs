//! The installed XML and the code's tables are the same contract.

use musterd::dbus::contract::{Emits, Interface, MANAGER_INTERFACE, WORKER_INTERFACE};
use musterd::dbus::convert::{CANCEL_KEYS, FILTER_KEYS, FORGET_KEYS, Keys, REAP_KEYS, SPAWN_KEYS};

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

/// `KEY SIGNATURE` pairs of a comment of the XML: everything between `start` and `end`.
fn keys_in(start: &str, end: &str) -> Vec<(String, String)> {
    let xml = MANAGER_INTERFACE.xml;
    let text = &xml[xml.find(start).unwrap() + start.len()..];
    let text = &text[..text.find(end).unwrap()];
    let mut plain = String::new();
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
        .split(',')
        .map(|pair| {
            let mut words = pair.split_whitespace();
            let key = words.next().unwrap().to_owned();
            (key, words.next().unwrap().to_owned())
        })
        .collect()
}

fn table(keys: Keys) -> Vec<(String, String)> {
    let twin = |key: &str| key.ends_with("-bytes");
    let all = keys.iter().filter(|(key, _)| !twin(key));
    all.map(|(k, s)| (k.to_string(), s.to_string())).collect()
}

#[test]
fn the_keys_of_every_dictionary_are_those_the_contract_documents() {
    assert_eq!(
        keys_in("spec: argv", "more:").len(),
        table(SPAWN_KEYS).len()
    );
    let mut documented = keys_in("<!-- spec: ", ".\n");
    documented.sort();
    let mut known = table(SPAWN_KEYS);
    known.sort();
    assert_eq!(documented, known);
    assert_eq!(keys_in("filter: ", ". Row"), table(FILTER_KEYS));
    assert_eq!(keys_in("<!-- options: now", ". Returns").len(), 2);
    assert_eq!(table(CANCEL_KEYS)[0].0, "now");
    assert_eq!(keys_in("<!-- options: dry-run", ". counts").len(), 5);
    assert_eq!(table(REAP_KEYS).len(), 5);
    assert_eq!(table(FORGET_KEYS), [("force".to_owned(), "b".to_owned())]);
}
