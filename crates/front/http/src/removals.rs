//! `GET /api/v1/removals`: the contents that a `keep` job or a ring would remove now.
//!
//! Promise: nothing is removed. The rule is in force (`job=`, `quota=`), or the query writes it, with the keys of a `keep` job.
//! Not here: the look through the folder (`automation`).

use http_types::StatusCode;
use service::access::ToObserve;
use service::contents::ContentPath;
use service::operations::{RemovalLimits, RemovalRule};
use units::{parse_duration, parse_size};

use crate::exchange::Exchange;
use crate::message::query::{Repeated, pairs};
use crate::message::reply::Reply;
use crate::{login, problem};

/// The keys of the query.
#[derive(Debug, Default)]
struct Asked {
    job: Option<String>,
    quota: Option<String>,
    folder: Option<String>,
    max_age: Option<String>,
    max_size: Option<String>,
    min_age: Option<String>,
    /// Each may be protected; the key may be given several times.
    protected: Vec<String>,
}

impl Asked {
    fn parse(text: Option<&str>) -> Result<Self, Repeated> {
        let mut asked = Self::default();
        for (key, value) in pairs(text) {
            let (name, field) = match key {
                "job" => ("job", &mut asked.job),
                "quota" => ("quota", &mut asked.quota),
                "folder" => ("folder", &mut asked.folder),
                "max_age" => ("max_age", &mut asked.max_age),
                "max_size" => ("max_size", &mut asked.max_size),
                "min_age" => ("min_age", &mut asked.min_age),
                "protected" => {
                    asked.protected.push(value);
                    continue;
                }
                _ => continue,
            };
            if field.replace(value).is_some() {
                return Err(Repeated(name));
            }
        }
        Ok(asked)
    }

    /// The rule, or the reason that this is none.
    fn rule(self) -> Result<RemovalRule, String> {
        let folder = match self {
            Self { job: Some(job), quota: None, folder: None, .. } => return Ok(RemovalRule::Job(job)),
            Self { quota: Some(quota), job: None, folder: None, .. } => return Ok(RemovalRule::Quota(quota)),
            Self { folder: Some(ref folder), job: None, quota: None, .. } => served(folder)?,
            _ => return Err("name one rule: `?job=NAME`, `?quota=FOLDER`, or `?folder=FOLDER&max_age=30d`".to_owned()),
        };
        let span = |key: &str, text: Option<String>| {
            let parsed = text.map(|text| parse_duration(&text)).transpose();
            parsed.map_err(|error| format!("{key}: {error}"))
        };
        let max_age = span("max_age", self.max_age)?;
        let max_size = self.max_size.map(|text| parse_size(&text)).transpose();
        let max_size = max_size.map_err(|error| format!("max_size: {error}"))?;
        let min_age = span("min_age", self.min_age)?.unwrap_or(RemovalLimits::MIN_AGE);
        let protected = self.protected.iter().map(|path| served(path)).collect::<Result<_, _>>()?;
        let limits = RemovalLimits { folder, max_age, max_size, min_age, protected };
        let contradiction = limits.contradiction().map(|(key, message)| format!("{key}: {message}"));
        contradiction.map_or(Ok(RemovalRule::Limits(limits)), Err)
    }
}

/// A folder or pattern as it is below `/media/`, not encoded.
fn served(text: &str) -> Result<ContentPath, String> {
    let names = text.trim_matches('/').split('/').filter(|name| !name.is_empty());
    let mut path = ContentPath::root();
    for name in names {
        path = path.child(name).map_err(|error| format!("`{text}`: {error}"))?;
    }
    Ok(path)
}

/// Answers the request.
pub(crate) async fn answer(exchange: &Exchange) -> Reply {
    let permit = match login::permit_server::<ToObserve>(exchange).await {
        Ok(permit) => permit,
        Err(reply) => return reply,
    };
    let rule = match Asked::parse(exchange.head.query.as_deref()) {
        Ok(asked) => asked.rule(),
        Err(repeated) => Err(repeated.to_string()),
    };
    let rule = match rule {
        Ok(rule) => rule,
        Err(message) => return Reply::malformed(message),
    };
    match exchange.shared.service.operations.removals(rule, &permit).await {
        Ok(Ok(removals)) => Reply::json(&removals),
        Ok(Err(message)) => Reply::problem(StatusCode::CONFLICT, &message),
        Err(error) => problem::of_job(&error),
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;

    #[test]
    fn a_rule_is_in_force_or_written_out() {
        let rule = |text: &str| Asked::parse(Some(text)).map_err(|error| error.to_string()).and_then(Asked::rule);
        assert_eq!(rule("job=a"), Ok(RemovalRule::Job("a".to_owned())));
        assert_eq!(rule("quota=a%2Fb"), Ok(RemovalRule::Quota("a/b".to_owned())));
        let Ok(RemovalRule::Limits(limits)) = rule("folder=a/b&max_age=30d&max_size=5G&protected=a/x&protected=a/y*")
        else {
            panic!("limits")
        };
        assert_eq!((limits.folder.joined().as_str(), limits.protected.len()), ("a/b", 2));
        assert_eq!((limits.max_age, limits.min_age), (Some(Nanos::from_secs(30 * 86_400)), RemovalLimits::MIN_AGE));
        for (text, part) in [
            ("", "name one rule"),
            ("job=a&quota=b", "name one rule"),
            ("job=a&job=b", "given twice"),
            ("folder=a", "one of `max_age` and `max_size`"),
            ("folder=a&max_age=1d&min_age=2d", "max_age: it is shorter than `min_age`"),
            ("folder=a&max_age=30min", "`1h` where that is not written"),
            ("folder=a&max_age=soon", "max_age: "),
            ("folder=a&max_size=x", "max_size: "),
            ("folder=../a&max_age=1d", "`../a`"),
        ] {
            assert!(rule(text).is_err_and(|said| said.contains(part)), "{text}");
        }
    }
}
