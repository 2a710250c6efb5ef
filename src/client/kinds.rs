//! `--kind` and `--kind-field` of `run`: a kind with its fields from words.

use super::exit::Failure;
use crate::worker::{Kind, KindType, ReplyTo};

/// Builds the kind. `kind` is a kind's word or a label; each of `fields` is `K=V`.
pub fn parse(kind: Option<&str>, fields: &[String]) -> Result<Kind, Failure> {
    let mut fields = Fields::read(fields)?;
    let kind_type = match kind {
        None if fields.0.is_empty() => return Ok(Kind::Command),
        None => {
            return Err(Failure::usage(
                "--kind-field needs --kind: say which kind the fields are of",
            ));
        }
        Some(text) => fields.take_label(text)?,
    };
    let kind = match kind_type {
        KindType::RootTurn => Kind::RootTurn {
            ctx: fields.need(kind_type, "ctx")?,
            event: fields.text("event"),
            reservation: fields.number("reservation")?,
            msg_depth: fields.number("msg_depth")?.unwrap_or(0),
        },
        KindType::StepTurn => Kind::StepTurn {
            run: fields.need(kind_type, "run")?,
            step: fields.need(kind_type, "step")?,
            reservation: fields.number("reservation")?,
        },
        KindType::Think => Kind::Think {
            purpose: fields.need(kind_type, "purpose")?,
            ctx: fields.text("ctx"),
            reply_to: fields.reply_to()?,
            extra: fields.text("extra").unwrap_or_default(),
            reservation: fields.number("reservation")?,
        },
        KindType::Subagent => Kind::Subagent {
            handle: fields.need(kind_type, "handle")?,
        },
        KindType::Command => Kind::Command,
    };
    if let Some((name, _)) = fields.0.first() {
        return Err(Failure::usage(format!(
            "--kind-field {name}: kind {kind_type} has no such field"
        )));
    }
    kind.check()
        .map_err(|e| Failure::usage(format!("--kind: {e}")))?;
    Ok(kind)
}

struct Fields(Vec<(String, String)>);

impl Fields {
    fn read(pairs: &[String]) -> Result<Self, Failure> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for pair in pairs {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(Failure::usage(format!(
                    "--kind-field {pair:?}: write NAME=VALUE"
                )));
            };
            let name = name.replace('-', "_");
            if fields.iter().any(|(n, _)| *n == name) {
                return Err(Failure::usage(format!("--kind-field {name}: given twice")));
            }
            fields.push((name, value.to_owned()));
        }
        Ok(Self(fields))
    }

    /// The kind a word or a label means; what the label holds becomes fields.
    fn take_label(&mut self, text: &str) -> Result<KindType, Failure> {
        let (word, rest) = match text.split_once(':') {
            Some((word, rest)) => (word, Some(rest)),
            None => (text, None),
        };
        let kind = match word {
            "turn" => KindType::RootTurn,
            "step" => KindType::StepTurn,
            _ => word
                .parse()
                .map_err(|e: String| Failure::usage(format!("--kind: {e}")))?,
        };
        let Some(rest) = rest else { return Ok(kind) };
        let mut give = |name: &str, value: &str| {
            if self.0.iter().any(|(n, _)| n == name) {
                return Err(Failure::usage(format!(
                    "--kind-field {name}: the label gives it already"
                )));
            }
            self.0.push((name.to_owned(), value.to_owned()));
            Ok(())
        };
        match kind {
            KindType::RootTurn => give("ctx", rest)?,
            KindType::Think => give("purpose", rest)?,
            KindType::Subagent => give("handle", rest)?,
            KindType::StepTurn => {
                let (run, step) = rest.split_once('/').ok_or_else(|| {
                    Failure::usage(format!("--kind {text:?}: write step:RUN/STEP"))
                })?;
                give("run", run)?;
                give("step", step)?;
            }
            KindType::Command => {
                return Err(Failure::usage("--kind: a command has no label but itself"));
            }
        }
        Ok(kind)
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(at).1)
    }

    fn need(&mut self, kind: KindType, name: &str) -> Result<String, Failure> {
        self.text(name)
            .ok_or_else(|| Failure::usage(format!("--kind {kind} needs --kind-field {name}=VALUE")))
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>, Failure> {
        self.text(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    Failure::usage(format!("--kind-field {name}={text}: is not a number"))
                })
            })
            .transpose()
    }

    fn reply_to(&mut self) -> Result<Option<ReplyTo>, Failure> {
        let Some(text) = self.text("reply_to") else {
            return Ok(None);
        };
        let parsed = text.split_once(':').and_then(|(node, request)| {
            Some(ReplyTo {
                node: node.parse().ok()?,
                request: request.parse().ok()?,
            })
        });
        match parsed {
            Some(reply_to) => Ok(Some(reply_to)),
            None => Err(Failure::usage(format!(
                "--kind-field reply_to={text}: write NODE:REQUEST, two numbers"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: &str, fields: &[&str]) -> Result<Kind, String> {
        let fields: Vec<String> = fields.iter().map(|f| (*f).to_owned()).collect();
        parse(Some(kind), &fields).map_err(|f| f.message)
    }

    #[test]
    fn words_and_labels_make_the_same_kinds() {
        for (label, word, fields) in [
            ("subagent:h", "subagent", &["handle=h"][..]),
            ("turn:c", "root-turn", &["ctx=c"]),
            ("step:r/s", "step-turn", &["run=r", "step=s"]),
            ("think:p", "think", &["purpose=p"]),
        ] {
            assert_eq!(kind(label, &[]), kind(word, fields), "{label}");
            assert_eq!(kind(label, &[]).unwrap().label(), label);
        }
        assert_eq!(parse(None, &[]), Ok(Kind::Command));
        let think = kind("think:p", &["reply-to=3:4", "reservation=5", "extra={}"]).unwrap();
        assert_eq!(think.reservation(), Some(5));
    }

    #[test]
    fn bad_fields_are_named() {
        for (word, fields, part) in [
            ("nosuch", &[][..], "nosuch"),
            ("subagent", &[], "handle"),
            ("subagent:h", &["ctx=c"], "ctx"),
            ("subagent:h", &["handle=i"], "handle"),
            ("subagent", &["handle="], "handle"),
            ("turn:c", &["msg_depth=x"], "msg_depth"),
            ("think:p", &["reply_to=3"], "reply_to"),
            ("think:p", &["extra={"], "extra"),
            ("turn:c", &["event"], "event"),
            ("turn:c", &["event=a", "event=b"], "twice"),
            ("step:r", &[], "step:RUN/STEP"),
        ] {
            let error = kind(word, fields).expect_err(word);
            assert!(error.contains(part), "{word} {fields:?}: {error}");
        }
        assert!(parse(None, &["ctx=c".into()]).is_err());
    }
}
