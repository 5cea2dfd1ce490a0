//! `[[budget]]`: the most of the server that a user, a group, a token, a link or each address may have at once.
//!
//! Not here: holding requests to it (`service::budgets`), budgets that commands set (the crate `accounts`).

use service::budgets::{BudgetLimits, BudgetScope};

use super::jobs::needed;
use super::settings::Settings;
use super::{parse_rate, parse_size};

/// Reads one `[[budget]]`.
pub(super) fn take(entry: &mut Settings) -> Option<(BudgetScope, BudgetLimits)> {
    let of = needed(entry, "of", "is the budget's holder: `address`, `user:NAME`, `group:NAME`, `token`", |text| {
        text.parse::<BudgetScope>().map_err(|error| error.to_string())
    });
    let limits = BudgetLimits {
        streams: entry.take_optional("streams", parse_count),
        reserved: entry.take_optional("reserved", parse_rate),
        idle: entry.take_optional("idle", parse_rate),
        download: entry.take_optional("download", parse_rate),
        upload: entry.take_optional("upload", parse_rate),
        requests: entry.take_optional("requests", parse_count),
        stored: entry.take_optional("stored", parse_size).map(|size| size.0),
    };
    if entry.is_right() && limits == BudgetLimits::default() {
        let message = "it limits nothing: `streams`, `reserved`, `idle`, `download`, `upload`, `requests` and `stored` are its limits";
        entry.contradiction("of", message.to_owned());
    }
    Some((of?, limits))
}

/// A number above zero.
fn parse_count(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| format!("`{text}` is no number above 0"))
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file("f.toml".as_ref(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_budget_is_read_and_shown_or_blamed() {
        let good = "[[budget]]\nof = \"user:ada\"\nstreams = 2\nreserved = \"20M\"\nidle = \"5M\"\ndownload = \"50M\"\n\
                    upload = \"10M\"\nrequests = 20\nstored = \"20GB\"\n[[budget]]\nof = \"address\"\nstreams = 9\n";
        let config = load(good).expect("two budgets");
        assert_eq!(config.budgets.len(), 2);
        assert_eq!(load(&config.to_string()).expect("as it is shown").budgets, config.budgets);
        for (text, said) in [
            ("streams = 2", "budget.of: it is needed"),
            ("of = \"users\"", "`users` is no budget's holder"),
            ("of = \"token\"\nstreams = 0", "`0` is no number above 0"),
            ("of = \"token\"\nreserved = \"9\"", "budget.reserved"),
            ("of = \"token\"\nspeed = 1", "budget.speed"),
            ("of = \"token\"", "budget.of: it limits nothing: `streams`"),
        ] {
            let problem = load(&format!("[[budget]]\n{text}\n")).expect_err(text);
            assert!(problem.contains(said), "{problem}");
        }
        let twice = "[[budget]]\nof = \"token\"\nstreams = 1\n".repeat(2);
        assert!(load(&twice).expect_err("two").contains("budget: `token` is the name of two"));
    }
}
