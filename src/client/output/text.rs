//! Text of others on a terminal: nothing a worker or a path holds may move the cursor, and
//! columns line up.

/// Escapes control characters, so that one text is one line without effect on the terminal:
/// `\n`, `\t`, `\r`, else `\xHH` or `\u{HHHH}`. Also what reorders or hides text (bidirectional
/// and zero-width controls).
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}' => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// A command line as one would type it, escaped; arguments with blanks or quotes are quoted.
pub fn command_line(argv: &[String]) -> String {
    let mut out = String::new();
    for arg in argv {
        if !out.is_empty() {
            out.push(' ');
        }
        let plain = !arg.is_empty()
            && arg
                .chars()
                .all(|c| c.is_alphanumeric() || "_-+=./:,@%^".contains(c));
        if plain {
            out.push_str(arg);
        } else {
            out.push('"');
            out.push_str(&escape(arg).replace('"', "\\\""));
            out.push('"');
        }
    }
    out
}

/// Columns a character takes; near enough for names and commands.
fn char_width(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x1ab0..=0x1aff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Columns a text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// The text in at most `columns`, with an ellipsis for what was cut.
pub fn ellipsize(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += char_width(c);
        if used > columns {
            break;
        }
        out.push(c);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// Does the text match a shell pattern of `*` and `?`? Anything else means itself.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on after a mismatch: behind the last star, one character further.
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                p += 1;
                back = Some((p, t));
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match back {
                Some((star, from)) => {
                    p = star;
                    t = from + 1;
                    back = Some((star, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_moves_the_cursor() {
        assert_eq!(escape("a\x1b[2Jb\r\n\t\u{7f}"), "a\\x1b[2Jb\\r\\n\\t\\x7f");
        assert_eq!(escape("\u{202e}x\u{9b}"), "\\u{202e}x\\x9b");
        assert_eq!(escape("größer 日本"), "größer 日本");
    }

    #[test]
    fn a_command_line_is_quoted_where_it_must_be() {
        let argv: Vec<String> = ["claude", "-p", "fix \"it\"", ""].map(String::from).into();
        assert_eq!(command_line(&argv), r#"claude -p "fix \"it\"" """#);
    }

    #[test]
    fn a_cut_text_never_takes_more_columns_than_given() {
        for text in ["abcdef", "日本語テキスト", "e\u{301}e\u{301}e\u{301}"] {
            for columns in 0..10 {
                assert!(
                    width(&ellipsize(text, columns)) <= columns,
                    "{text} {columns}"
                );
            }
        }
        assert_eq!(ellipsize("abcdef", 4), "abc…");
        assert_eq!(ellipsize("abc", 3), "abc");
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text, yes) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("a?c", "abc", true),
            ("?", "", false),
            ("*a*b*", "xxaxxbxx", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
        ] {
            assert_eq!(glob(pattern, text), yes, "{pattern} {text}");
        }
    }
}
