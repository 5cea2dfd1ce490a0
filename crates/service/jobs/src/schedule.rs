//! A cron expression in a time zone: the moments at which a job is due.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The fields of an expression, with the forms of each. The seconds may be left out.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day", "1-31, L"),
    ("month", "1-12"),
    ("weekday", "0-7, MON-SUN, 5L, MON#1"),
];

/// A cron expression is not understood, or never comes true.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// It does not have five or six fields.
    #[error(
        "`{0}` has {1} fields; write five (minute hour day month weekday, such as `30 3 * * *` for half past three each night), or \
         six with seconds in front"
    )]
    FieldCount(String, usize),
    /// One field is wrong.
    #[error("`{field}` is no {name} ({range}, `*`, `*/5`, `1,2`, `1-5`)")]
    Field {
        /// The field as it was written.
        field: String,
        /// Name of the field.
        name: &'static str,
        /// Forms of the field that are understood.
        range: &'static str,
    },
    /// It is one word with an `@`.
    #[error("`{0}` is no time; there are `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly`")]
    Name(String),
    /// The fields are right each by itself.
    #[error("`{0}` is not understood: {1}")]
    Whole(String, String),
    /// There is no such day.
    #[error("`{0}` never comes: there is no such day")]
    Never(String),
}

/// The moments at which a job is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSchedule {
    cron: Cron,
    zone: TimeZone,
    jitter: Duration,
    /// Name of the job, which gives it a jitter of its own.
    identity: String,
}

impl CronSchedule {
    /// Reads `text`: five fields (minute, hour, day, month, weekday), six with seconds in front, or `@daily` and its like; in
    /// `zone`. Each run of the job `identity` is put off by up to `jitter`, by chance that is the same at each start.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn parse(text: &str, zone: TimeZone, jitter: Duration, identity: &str) -> Result<Self, CronError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let is_named = fields.len() == 1 && text.trim().starts_with('@');
        if !is_named && !(5..=6).contains(&fields.len()) {
            return Err(CronError::FieldCount(text.to_owned(), fields.len()));
        }
        let cron = parser().parse(text).map_err(|error| match is_named {
            true => CronError::Name(text.to_owned()),
            false => blame(text, &fields, &error.to_string()),
        })?;
        let schedule = Self { cron, zone, jitter, identity: identity.to_owned() };
        // The search spans thousands of years, so that any beginning will do.
        match schedule.after(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(schedule),
            None => Err(CronError::Never(text.to_owned())),
        }
    }

    /// The first moment after `at` that the expression names, without jitter; none if there is none.
    #[must_use]
    pub fn after(&self, at: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&at.to_zoned(self.zone.clone()), false);
        next.ok().map(|next| next.timestamp())
    }

    /// Returns the time at which the run of `nominal` begins.
    #[must_use]
    pub fn begin(&self, nominal: Timestamp) -> Timestamp {
        let jitter = u64::try_from(self.jitter.as_millis()).unwrap_or(u64::MAX);
        if jitter == 0 {
            return nominal;
        }
        let mut hasher = DefaultHasher::new();
        (&self.identity, nominal.as_second()).hash(&mut hasher);
        nominal.saturating_add(Duration::from_millis(hasher.finish() % jitter)).unwrap_or(nominal)
    }
}

fn parser() -> CronParser {
    CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build()
}

/// Finds the field that is wrong by itself.
fn blame(text: &str, fields: &[&str], reason: &str) -> CronError {
    let names = &FIELDS[FIELDS.len().saturating_sub(fields.len())..];
    for (at, (field, (name, range))) in fields.iter().zip(names).enumerate() {
        let alone: Vec<&str> = (0..fields.len()).map(|other| if other == at { *field } else { "*" }).collect();
        if parser().parse(&alone.join(" ")).is_err() {
            return CronError::Field { field: (*field).to_owned(), name, range };
        }
    }
    CronError::Whole(text.to_owned(), reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CronSchedule, CronError> {
        CronSchedule::parse(text, TimeZone::UTC, Duration::ZERO, "test")
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_wrong_field_is_named() {
        let said = |text: &str| parse(text).expect_err(text).to_string();
        for (text, part) in [
            ("61 * * * *", "`61` is no minute (0-59"),
            ("0 25 * * *", "`25` is no hour (0-23"),
            ("* * 0 * *", "`0` is no day"),
            ("* * * 13 *", "`13` is no month"),
            ("* * * * tuesday", "`tuesday` is no weekday"),
            ("75 * * * * *", "`75` is no second"),
            ("*/0 * * * *", "`*/0` is no minute"),
            ("5-1 * * * *", "`5-1` is no minute"),
            ("x y z a b", "`x` is no minute"),
            ("99999999999999999999 * * * *", "is no minute"),
            ("* * *", "has 3 fields; write five"),
            ("", "has 0 fields"),
            ("1 2 3 4 5 6 7 8", "has 8 fields"),
            ("every day at noon please", "`every` is no minute"),
            ("@sometimes", "`@sometimes` is no time; there are `@hourly`"),
            ("0 0 30 2 *", "never comes"),
        ] {
            assert!(said(text).contains(part), "{text}: {}", said(text));
        }
    }

    #[test]
    fn days_are_those_of_the_zone() {
        let zone = |hours: i8| TimeZone::fixed(jiff::tz::offset(hours));
        for (hours, expected) in
            [(0, "2026-11-24T03:30:00Z"), (9, "2026-11-23T18:30:00Z"), (-5, "2026-11-23T08:30:00Z")]
        {
            let schedule = CronSchedule::parse("30 3 * * *", zone(hours), Duration::ZERO, "a").expect("good");
            assert_eq!(schedule.after(at("2026-11-23T07:00:00Z")), Some(at(expected)), "{hours}");
        }
    }

    #[test]
    fn a_run_in_the_hour_that_is_left_out_still_comes_and_one_in_the_hour_that_is_twice_comes_once() {
        // The rule of Central Europe, as POSIX writes it: no database of time zones is needed.
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a rule");
        let schedule = CronSchedule::parse("30 2 * * *", zone, Duration::ZERO, "a").expect("good");
        let days = |from: &str, to: &str| {
            let (mut last, end, mut count) = (at(from), at(to), 0);
            while let Some(next) = schedule.after(last).filter(|next| *next < end) {
                (last, count) = (next, count + 1);
            }
            count
        };
        assert_eq!(days("2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z"), 2, "the clock goes from 2 to 3");
        assert_eq!(days("2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z"), 2, "the clock goes from 3 to 2");
    }

    #[test]
    fn jitter_is_the_same_at_each_start_and_another_for_each_job() {
        let begin = |name: &str| {
            let minute = Duration::from_secs(60);
            let schedule = CronSchedule::parse("@daily", TimeZone::UTC, minute, name).expect("good");
            let nominal = at("2026-11-24T00:00:00Z");
            let begin = schedule.begin(nominal);
            assert!(begin >= nominal && begin < nominal.saturating_add(minute).expect("in range"));
            begin
        };
        assert_eq!(begin("a"), begin("a"));
        let different: std::collections::BTreeSet<_> = (0..20).map(|n| begin(&format!("job {n}"))).collect();
        assert!(different.len() > 15, "{different:?}");
    }
}
