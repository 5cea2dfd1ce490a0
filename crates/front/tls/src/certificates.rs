//! The certificates in force: read at the start, watched, and chosen by the name that a client asks for.
//!
//! Promise: files that change are in force within [`LOOK_PERIOD`] and the time to read them; connections made under older ones live
//! on; a pair that cannot be used, or has expired, replaces nothing, and is a problem of the state for as long as it lies there.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::challenges::{Challenges, PROOF_PROTOCOL};
use crate::pair::{Pair, PairError, PairFiles, PairText};
use crate::self_signed::{SelfSigned, write_pair};

/// Time between two looks at the files.
pub const LOOK_PERIOD: Duration = Duration::from_secs(4);

/// Origin of the certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// Pairs of files. The first serves clients that ask for no name, or for a name without a pair.
    Files(Vec<PairFiles>),
    /// A certificate that this server signs itself and keeps.
    SelfSigned {
        /// Folder in which it is kept.
        folder: PathBuf,
        /// Names of hosts that it is for.
        names: Vec<String>,
        /// Addresses that it is for.
        addresses: Vec<IpAddr>,
    },
    /// A certificate that an authority signs ([`Certificates::install`]), and until then this server itself.
    Authority {
        /// Folder in which it is kept.
        folder: PathBuf,
        /// Names of hosts that it must be for.
        names: Vec<String>,
        /// Further pairs of files, which go first.
        beside: Vec<PairFiles>,
    },
}

/// One certificate, and its fitness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateState {
    /// File of the certificate.
    pub file: PathBuf,
    /// Names of hosts that the one in force is for.
    pub names: Vec<String>,
    /// End of the one in force.
    pub expires: SystemTime,
    /// Reason that the present files are not in force.
    pub problem: Option<String>,
}

/// A change that a look at the files found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateChange {
    /// Another certificate is in force.
    Loaded(CertificateState),
    /// The files changed and cannot be used; the certificate before is in force.
    Refused(CertificateState),
}

/// The certificates of a server.
#[derive(Debug)]
pub struct Certificates {
    watched: Mutex<Vec<Watched>>,
    in_force: RwLock<Arc<[Arc<Pair>]>>,
    challenges: Arc<Challenges>,
}

/// A pair that is in force, and its files as they were read last.
#[derive(Debug)]
struct Watched {
    files: PairFiles,
    self_signed: Option<SelfSigned>,
    /// An authority signs it.
    by_authority: bool,
    pair: Arc<Pair>,
    seen: Result<PairText, String>,
    problem: Option<String>,
}

/// Certificates that can be used, with their keys.
#[derive(Debug)]
pub struct ReadCertificates(Vec<Watched>);

impl CertificateSource {
    /// Reads all of them, to be put in force.
    ///
    /// # Errors
    /// One cannot be used.
    pub fn read(&self) -> Result<ReadCertificates, PairError> {
        self.load(SystemTime::now()).map(ReadCertificates)
    }

    /// Reads all of them.
    fn load(&self, now: SystemTime) -> Result<Vec<Watched>, PairError> {
        match self {
            Self::Files(files) => files.iter().map(|files| Watched::load(files.clone(), None)).collect(),
            Self::SelfSigned { folder, names, addresses } => {
                let own = SelfSigned {
                    folder: folder.clone(),
                    stem: "self-signed",
                    names: names.clone(),
                    addresses: addresses.clone(),
                };
                own.keep(now).map_err(|error| PairError::Unreadable(folder.clone(), error))?;
                Ok(vec![Watched::load(own.files(), Some(own))?])
            }
            Self::Authority { folder, names, beside } => {
                let (names, addresses) = (names.clone(), Vec::new());
                let own = SelfSigned { folder: folder.clone(), stem: "authority", names, addresses };
                own.stand_in(now).map_err(|error| PairError::Unreadable(folder.clone(), error))?;
                let signed = Watched { by_authority: true, ..Watched::load(own.files(), None)? };
                let files = beside.iter().map(|files| Watched::load(files.clone(), None));
                files.chain([Ok(signed)]).collect()
            }
        }
    }
}

impl Certificates {
    /// Reads the certificates. An expired one is in force all the same: there is no better one.
    ///
    /// # Errors
    /// A certificate cannot be used.
    pub fn load(source: &CertificateSource) -> Result<Arc<Self>, PairError> {
        let watched = source.load(SystemTime::now())?;
        let (in_force, challenges) = (RwLock::new(pairs(&watched)), Arc::default());
        Ok(Arc::new(Self { in_force, watched: Mutex::new(watched), challenges }))
    }

    /// Puts others in force for connections that come from now on.
    pub fn configure(&self, ReadCertificates(new): ReadCertificates) {
        self.put_in_force(&new);
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// The state of each.
    #[must_use]
    pub fn states(&self) -> Vec<CertificateState> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Watched::state).collect()
    }

    /// The proofs that authorities are shown.
    #[must_use]
    pub const fn challenges(&self) -> &Arc<Challenges> {
        &self.challenges
    }

    /// The time from `now` until an authority should sign another certificate, for all of `names`: the last third of the present one's time.
    #[must_use]
    pub fn due_in(&self, names: &[String], now: SystemTime) -> Duration {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pair) = watched.iter().find(|each| each.by_authority).map(|each| &each.pair) else {
            return Duration::ZERO;
        };
        if pair.is_self_signed || !names.iter().all(|name| pair.is_for(&name.to_ascii_lowercase())) {
            return Duration::ZERO;
        }
        let time = pair.expires.duration_since(pair.begins).unwrap_or_default();
        (pair.begins + time / 3 * 2).duration_since(now).unwrap_or_default()
    }

    /// Keeps a pair that an authority has signed in place of the files before; the next look puts it in force.
    ///
    /// # Errors
    /// It cannot be used or written; nothing is changed then.
    pub fn install(&self, certificate: &str, key: &str) -> Result<(), PairError> {
        // The lock keeps looks away, between the one file and the other.
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(signed) = watched.iter().find(|each| each.by_authority) else { return Ok(()) };
        let text = PairText { certificate: certificate.as_bytes().to_vec(), key: key.as_bytes().to_vec() };
        Pair::of(&signed.files, &text)?;
        let written = write_pair(&signed.files, &text.certificate, &text.key);
        written.map_err(|error| PairError::Unreadable(signed.files.certificate.clone(), error))
    }

    /// Notes that an authority signs no other certificate, with the reason: a problem of the present one until one is installed.
    pub fn note_refusal(&self, reason: String) -> Option<CertificateChange> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let signed = watched.iter_mut().find(|each| each.by_authority)?;
        signed.problem = Some(reason);
        Some(CertificateChange::Refused(signed.state()))
    }

    /// Looks at the files until the certificates are dropped; `tell` takes each change.
    pub async fn watch(this: Weak<Self>, tell: impl Fn(CertificateChange)) {
        loop {
            tokio::time::sleep(LOOK_PERIOD).await;
            let Some(certificates) = this.upgrade() else { return };
            // Their disk may hang.
            let looked = tokio::task::spawn_blocking(move || certificates.look(SystemTime::now())).await;
            looked.unwrap_or_default().into_iter().for_each(&tell);
        }
    }

    /// Reads the files again, and puts those in force that changed and can be used.
    pub(crate) fn look(&self, now: SystemTime) -> Vec<CertificateChange> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let changes: Vec<CertificateChange> = watched.iter_mut().filter_map(|watched| watched.look(now)).collect();
        if changes.iter().any(|change| matches!(change, CertificateChange::Loaded(_))) {
            self.put_in_force(&watched);
        }
        changes
    }

    /// The first that is for `name`, else the first.
    fn chosen(&self, name: Option<&str>) -> Option<Arc<Pair>> {
        let pairs = Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner));
        let name = name.map(str::to_ascii_lowercase);
        let named = name.and_then(|name| pairs.iter().find(|pair| pair.is_for(&name)));
        named.or(pairs.first()).map(Arc::clone)
    }

    fn put_in_force(&self, watched: &[Watched]) {
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = pairs(watched);
    }
}

fn pairs(watched: &[Watched]) -> Arc<[Arc<Pair>]> {
    watched.iter().map(|watched| Arc::clone(&watched.pair)).collect()
}

impl Watched {
    fn load(files: PairFiles, self_signed: Option<SelfSigned>) -> Result<Self, PairError> {
        let text = PairText::read(&files)?;
        let pair = Arc::new(Pair::of(&files, &text)?);
        Ok(Self { files, self_signed, by_authority: false, pair, seen: Ok(text), problem: None })
    }

    fn state(&self) -> CertificateState {
        CertificateState {
            file: self.files.certificate.clone(),
            names: self.pair.names.clone(),
            expires: self.pair.expires,
            problem: self.problem.clone(),
        }
    }

    /// Reads the files; a change if they are not as they were.
    fn look(&mut self, now: SystemTime) -> Option<CertificateChange> {
        let kept = self.self_signed.as_ref().map_or(Ok(()), |own| own.keep(now));
        let text = kept
            .map_err(|error| PairError::Unreadable(self.files.certificate.clone(), error))
            .and_then(|()| PairText::read(&self.files));
        let seen = text.as_ref().map(PairText::clone).map_err(ToString::to_string);
        if seen == self.seen {
            return None;
        }
        self.seen = seen;
        let pair = text.and_then(|text| Pair::of(&self.files, &text)).and_then(|pair| {
            let expired = pair.expires <= now;
            if expired { Err(PairError::Expired(self.files.certificate.clone())) } else { Ok(pair) }
        });
        match pair {
            Ok(pair) => {
                self.pair = Arc::new(pair);
                self.problem = None;
                Some(CertificateChange::Loaded(self.state()))
            }
            Err(error) => {
                self.problem = Some(error.to_string());
                Some(CertificateChange::Refused(self.state()))
            }
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_proof = hello.alpn().is_some_and(|mut names| names.next() == Some(PROOF_PROTOCOL));
        if is_proof {
            return hello.server_name().and_then(|name| self.challenges.certificate(name));
        }
        self.chosen(hello.server_name()).map(|pair| Arc::clone(&pair.certified))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// A certificate and its key, as PEM.
    fn made(names: &[&str], expires: SystemTime) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_after = expires.into();
        let key = KeyPair::generate().expect("a key");
        (params.self_signed(&key).expect("signed").pem(), key.serialize_pem())
    }

    fn write(folder: &Path, name: &str, (certificate, key): &(String, String)) -> PairFiles {
        let files = PairFiles { certificate: folder.join(name), key: folder.join(format!("{name}.key")) };
        fs::write(&files.certificate, certificate).expect("written");
        fs::write(&files.key, key).expect("written");
        files
    }

    fn problem(changes: &[CertificateChange]) -> String {
        match changes {
            [CertificateChange::Refused(state)] => state.problem.clone().expect("a reason"),
            other => panic!("one refusal: {other:?}"),
        }
    }

    #[test]
    fn a_name_chooses_its_certificate_and_the_first_serves_all_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let later = SystemTime::now() + 90 * DAY;
        let first = write(folder.path(), "first", &made(&["media.example"], later));
        let second = write(folder.path(), "second", &made(&["*.b.example", "b.example"], later));
        let certificates = Certificates::load(&CertificateSource::Files(vec![first, second])).expect("two pairs");
        let names = |name| certificates.chosen(name).expect("the first at least").names.clone();
        for name in [Some("B.example"), Some("x.b.example")] {
            assert_eq!(names(name), ["*.b.example", "b.example"], "{name:?}");
        }
        for name in [None, Some("media.example"), Some("x.y.b.example"), Some("other.example")] {
            assert_eq!(names(name), ["media.example"], "{name:?}");
        }
    }

    #[test]
    fn a_changed_pair_is_in_force_and_an_unusable_one_replaces_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = SystemTime::now();
        let (old, new) = (made(&["old.example"], now + 90 * DAY), made(&["new.example"], now + 90 * DAY));
        let files = write(folder.path(), "pair", &old);
        let certificates = Certificates::load(&CertificateSource::Files(vec![files.clone()])).expect("a pair");
        let in_force = || certificates.chosen(None).expect("one").names[0].clone();
        assert_eq!(certificates.look(now), [], "nothing changed");

        fs::write(&files.certificate, &new.0).expect("written");
        assert!(problem(&certificates.look(now)).contains("is not the one of the certificate"));
        assert_eq!(certificates.look(now), [], "it was said");
        fs::write(&files.certificate, &new.0[..new.0.len() / 2]).expect("written");
        assert!(
            problem(&certificates.look(now))
                .contains("holds no whole certificate in PEM form (it breaks off within one)")
        );
        fs::remove_file(&files.key).expect("removed");
        assert!(problem(&certificates.look(now)).contains("cannot be read"));
        write(folder.path(), "pair", &made(&["late.example"], now - DAY));
        assert!(problem(&certificates.look(now)).contains("has expired"));
        assert_eq!((in_force().as_str(), certificates.states()[0].problem.is_some()), ("old.example", true));

        write(folder.path(), "pair", &new);
        assert!(matches!(certificates.look(now).as_slice(), [CertificateChange::Loaded(_)]));
        assert_eq!((in_force().as_str(), certificates.states()[0].problem.clone()), ("new.example", None));
    }

    #[test]
    fn a_self_signed_certificate_is_kept_until_it_is_about_to_expire() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = vec!["localhost".to_owned(), "nas".to_owned()];
        let source = |names: &[String]| CertificateSource::SelfSigned {
            folder: folder.path().join("tls"),
            names: names.to_vec(),
            addresses: vec![[127, 0, 0, 1].into()],
        };
        let kept = |names: &[String]| {
            let certificates = Certificates::load(&source(names)).expect("made");
            (certificates.chosen(None).expect("one").certified.cert[0].to_vec(), certificates)
        };
        let (first, certificates) = kept(&names);
        assert_eq!(kept(&names).0, first, "the same after a restart");
        assert_eq!(certificates.look(SystemTime::now() + 700 * DAY), []);
        assert!(matches!(certificates.look(SystemTime::now() + 800 * DAY).as_slice(), [CertificateChange::Loaded(_)]));
        let more: Vec<String> = names.iter().cloned().chain(["media.example".to_owned()]).collect();
        assert_ne!(kept(&more).0, first, "a name was missing");
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(folder.path().join("tls/self-signed.key")).expect("a key").permissions(),
        );
        assert_eq!(mode & 0o077, 0, "only its user reads the key");
    }

    #[test]
    fn a_signed_certificate_replaces_the_self_signed_one_and_is_due_in_the_last_third() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = vec!["media.example".to_owned()];
        let (kept, now) = (folder.path().join("tls"), SystemTime::now());
        let beside = vec![write(folder.path(), "other", &made(&["other.example"], now + 90 * DAY))];
        let source = CertificateSource::Authority { folder: kept, names: names.clone(), beside };
        let certificates = Certificates::load(&source).expect("it stands in");
        assert_eq!(certificates.due_in(&names, now), Duration::ZERO, "nothing is signed yet");
        assert_eq!(certificates.chosen(Some("media.example")).expect("one").names, names);
        let (authority, key) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(rcgen::DnType::CommonName, "Authority");
        let issuer = rcgen::Issuer::new(params, authority);
        let mut params = CertificateParams::new(names.clone()).expect("a name");
        (params.not_before, params.not_after) = ((now - DAY).into(), (now + 89 * DAY).into());
        let chain = params.signed_by(&key, &issuer).expect("signed").pem();
        let half = &chain[..chain.len() / 2];
        assert!(certificates.install(half, &key.serialize_pem()).is_err() && certificates.look(now).is_empty());
        let refused = certificates.note_refusal("CAA".to_owned()).expect("a change");
        assert!(matches!(refused, CertificateChange::Refused(state) if state.problem.as_deref() == Some("CAA")));
        certificates.install(&chain, &key.serialize_pem()).expect("installed");
        assert!(matches!(certificates.look(now).as_slice(), [CertificateChange::Loaded(_)]));
        assert!(certificates.states().iter().all(|state| state.problem.is_none()));
        let due = certificates.due_in(&names, now).as_secs().div_ceil(3600);
        assert_eq!(due, 59 * 24, "60 of 90 days, one of which is over");
        assert_eq!(certificates.due_in(&names, now + 60 * DAY), Duration::ZERO);
        let more = vec!["media.example".to_owned(), "new.example".to_owned()];
        assert_eq!(certificates.due_in(&more, now), Duration::ZERO, "a name is missing");
    }
}
