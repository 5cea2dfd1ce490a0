//! `[[quota]]`: bounds on the contents below a folder.
//!
//! Not here: holding uploads to it (`service::quota`), removing the oldest (`crate::jobs`).

use service::quota::{QuotaConfig, WhenQuotaFull};
use store::ContentPath;
use units::Nanos;

use super::jobs::{needed, parse_served, take_protected};
use super::settings::Settings;
use super::toml_text::parse_word;
use super::{parse_size, parse_span};

/// Reads one `[[quota]]`.
pub(super) fn take(entry: &mut Settings) -> Option<QuotaConfig> {
    let folder = needed(entry, "folder", "is the folder of the quota, as it is below /media/", parse_served);
    let max_size = needed(entry, "max_size", "is how much may lie in the folder: `500GB`", parse_size);
    let when_full = entry.take("when_full", WhenQuotaFull::Refuse, parse_word);
    let min_age = entry.take("min_age", Nanos::ZERO, parse_span);
    let protected = take_protected(entry);
    if when_full == WhenQuotaFull::Refuse && (min_age > Nanos::ZERO || !protected.is_empty()) {
        let message =
            "`min_age` and `protected` name the contents that `overwrite_oldest` spares; `refuse` removes nothing";
        entry.contradiction("when_full", message.to_owned());
    }
    if when_full == WhenQuotaFull::Refuse {
        ["when_full", "min_age"].iter().for_each(|key| entry.hide(key));
    }
    Some(QuotaConfig { folder: folder?, bytes_max: max_size?.0, when_full, min_age, protected })
}

/// The folders of the quotas, which distinguish them.
pub(super) fn folders(quotas: &[QuotaConfig]) -> Vec<String> {
    quotas.iter().map(|quota| ContentPath::joined(&quota.folder)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file("f.toml".as_ref(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_quota_is_read_and_shown_or_blamed() {
        let good = "[[quota]]\nfolder = \"cameras\"\nmax_size = \"2TB\"\nwhen_full = \"overwrite_oldest\"\nmin_age = \"1d\"\n\
                    protected = [\"cameras/door/kept\", \"cameras/x.ts\"]\n[[quota]]\nfolder = \"up loads\"\nmax_size = \"10GB\"\n";
        let config = load(good).expect("good");
        assert_eq!((config.quotas.len(), config.quotas[0].protected.len()), (2, 2));
        assert_eq!(load(&config.to_string()).expect("shown"), config, "{config}");
        for (text, part) in [
            ("max_size = \"1GB\"", "f.toml:1: quota.folder: it is needed"),
            ("folder = \"a\"", "quota.max_size: it is needed"),
            ("folder = \"a\"\nmax_size = \"1GB\"\nwhen_full = \"stop\"", "neither `refuse` nor `overwrite_oldest`"),
            ("folder = \"a\"\nmax_size = \"1GB\"\nmin_age = \"1d\"", "`refuse` removes nothing"),
            ("folder = \"/srv/a\"\nmax_size = \"1GB\"", "the served path below /media/"),
        ] {
            let said = load(&format!("[[quota]]\n{text}\n")).expect_err(text);
            assert!(said.contains(part), "{said}");
        }
        let twice = "[[quota]]\nfolder = \"a\"\nmax_size = \"1GB\"\n".repeat(2);
        assert!(load(&twice).expect_err("two").contains("quota: `a` is the name of two"));
    }
}
