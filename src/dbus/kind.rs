//! A kind and its dictionary of fields, both ways.

use std::collections::HashMap;

use zbus::{OwnedVariant, Variant};

use super::convert::{Dict, Keys, Received};
use super::errors::Failure;
use crate::worker::{Kind, KindError, KindType, ReplyTo};

/// The fields of a kind with their signatures.
pub fn fields(kind: KindType) -> Keys {
    match kind {
        KindType::RootTurn => &[
            ("ctx", "s"),
            ("event", "s"),
            ("reservation", "t"),
            ("msg_depth", "u"),
        ],
        KindType::StepTurn => &[("run", "s"), ("step", "s"), ("reservation", "t")],
        KindType::Think => &[
            ("purpose", "s"),
            ("ctx", "s"),
            ("reply_to", "(tt)"),
            ("extra", "s"),
            ("reservation", "t"),
        ],
        KindType::Subagent => &[("handle", "s")],
        KindType::Command => &[],
    }
}

/// `kind` and `kind-fields` of Spawn.
pub fn kind_from_dict(
    kind: Option<KindType>,
    given: Option<HashMap<String, OwnedVariant>>,
) -> Result<Kind, Failure> {
    let kind = kind.unwrap_or(KindType::Command);
    let given: Received = given.unwrap_or_default().into_iter().collect();
    if let Some(field) = given
        .keys()
        .find(|key| !fields(kind).iter().any(|(known, _)| known == key))
    {
        let field = field.chars().take(64).collect();
        return Err(wrong(&KindError::Unknown { kind, field }));
    }
    let mut d = Dict::checked("kind-fields", given, fields(kind))?;
    let must = |d: &mut Dict, field: &'static str| {
        d.take::<String>(field)?
            .ok_or_else(|| wrong(&KindError::Missing { kind, field }))
    };
    Ok(match kind {
        KindType::RootTurn => Kind::RootTurn {
            ctx: must(&mut d, "ctx")?,
            event: d.take("event")?,
            reservation: d.take("reservation")?,
            msg_depth: d.take("msg_depth")?.unwrap_or_default(),
        },
        KindType::StepTurn => Kind::StepTurn {
            run: must(&mut d, "run")?,
            step: must(&mut d, "step")?,
            reservation: d.take("reservation")?,
        },
        KindType::Think => Kind::Think {
            purpose: must(&mut d, "purpose")?,
            ctx: d.take("ctx")?,
            reply_to: d
                .take::<zbus::Structure<'static>>("reply_to")?
                .map(|pair| {
                    <(u64, u64)>::try_from(pair)
                        .map(|(node, request)| ReplyTo { node, request })
                        .map_err(|_| d.bad("reply_to", "is not two numbers"))
                })
                .transpose()?,
            extra: d.take("extra")?.unwrap_or_default(),
            reservation: d.take("reservation")?,
        },
        KindType::Subagent => Kind::Subagent {
            handle: must(&mut d, "handle")?,
        },
        KindType::Command => Kind::Command,
    })
}

fn wrong(error: &KindError) -> Failure {
    let kind = match error {
        KindError::Missing { kind, .. } | KindError::Unknown { kind, .. } => *kind,
        KindError::Bad { .. } => KindType::Command,
    };
    let known: Vec<&str> = fields(kind).iter().map(|(known, _)| *known).collect();
    let right = if known.is_empty() {
        "it has none".to_owned()
    } else {
        format!("its fields are {}", known.join(", "))
    };
    Failure::invalid(format!("Spawn: kind-fields: {error}; {right}"))
}

/// The fields of a kind, for `kind-fields` and the property KindFields.
pub fn kind_to_dict(kind: &Kind) -> HashMap<String, Variant<'static>> {
    let mut dict = HashMap::new();
    let mut put = |key: &str, value: Option<Variant<'static>>| {
        if let Some(value) = value {
            dict.insert(key.to_owned(), value);
        }
    };
    let number = |n: &Option<u64>| n.map(Variant::from);
    match kind {
        Kind::RootTurn {
            ctx,
            event,
            reservation,
            msg_depth,
        } => {
            put("ctx", Some(ctx.clone().into()));
            put("event", event.clone().map(Variant::from));
            put("reservation", number(reservation));
            put("msg_depth", Some((*msg_depth).into()));
        }
        Kind::StepTurn {
            run,
            step,
            reservation,
        } => {
            put("run", Some(run.clone().into()));
            put("step", Some(step.clone().into()));
            put("reservation", number(reservation));
        }
        Kind::Think {
            purpose,
            ctx,
            reply_to,
            extra,
            reservation,
        } => {
            put("purpose", Some(purpose.clone().into()));
            put("ctx", ctx.clone().map(Variant::from));
            put("reply_to", reply_to.map(|r| (r.node, r.request).into()));
            put("extra", (!extra.is_empty()).then(|| extra.clone().into()));
            put("reservation", number(reservation));
        }
        Kind::Subagent { handle } => put("handle", Some(handle.clone().into())),
        Kind::Command => {}
    }
    dict
}
