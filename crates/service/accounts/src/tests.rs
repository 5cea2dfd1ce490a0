//! Changes and their effects, on a real database.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use service::access::Principal;
use service::account_changes::{
    AccountChange, AccountStore as _, ChangeError, Changed, Grantee, LinkWish, ListPart, ProvenIdentity,
};
use service::accounts::{Accounts, FolderRights, Holder, Right, Rights};
use service::contents::ContentPath;
use service::logins::{of_browser, of_link, of_token};

use crate::{ChangeAuthor, CommandNotice, Database, Keeper, announce, link_objection};

const NOW: u64 = 1_800_000_000;

fn path(text: &str) -> ContentPath {
    ContentPath::parse(text).expect("a path")
}

fn given(folder: &str, rights: &str) -> FolderRights {
    FolderRights { folder: path(folder), rights: rights.parse().expect("rights") }
}

fn add(name: &str) -> AccountChange {
    AccountChange::AddAccount {
        name: name.to_owned(),
        password_hash: "$argon2id$".to_owned(),
        rights: Rights::default(),
    }
}

fn wish(folder: &str, rights: &str) -> LinkWish {
    LinkWish {
        given: given(folder, rights),
        expires: u64::MAX >> 1,
        rate: None,
        uses: None,
        from: Vec::new(),
        stored: None,
        by: None,
    }
}

fn to(name: &str) -> Grantee {
    Grantee::Account(name.to_owned())
}

fn apply(database: &mut Database, change: AccountChange) -> Result<Changed, ChangeError> {
    database.apply(&[change], ChangeAuthor::Client, NOW).expect("the database works").pop().expect("one result")
}

/// The facts of a database in force.
fn in_force(database: &Database) -> Accounts {
    let accounts = Accounts::default();
    accounts.put(database.facts().expect("facts"));
    accounts
}

fn new(changed: Result<Changed, ChangeError>) -> (i64, String) {
    match changed.expect("made") {
        Changed::New { id, text } => (id, text),
        Changed::Done => panic!("nothing new"),
    }
}

fn database(state: &Path) -> Database {
    Database::open(state).expect("a database")
}

#[test]
fn rights_are_granted_and_revoked_folder_by_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    assert_eq!(apply(&mut database, add("ada")), Ok(Changed::Done));
    assert_eq!(apply(&mut database, add("ada")), Err(ChangeError::AccountExists("ada".to_owned())));
    let grant = |folder, rights| AccountChange::Grant { to: to("ada"), given: given(folder, rights) };
    let revoke = |folder, rights| AccountChange::Revoke { of: to("ada"), taken: given(folder, rights) };
    apply(&mut database, grant("/a", "read,write")).expect("granted");
    apply(&mut database, grant("/a", "delete")).expect("granted");
    let may = |database: &Database, right, over| in_force(database).may(Holder::Account("ada"), right, &path(over));
    assert!(may(&database, Right::Write, "/a/b") && may(&database, Right::Delete, "/a"));
    assert!(!may(&database, Right::Read, "/b") && !may(&database, Right::Administer, "/a"));
    apply(&mut database, revoke("/a", "write")).expect("revoked");
    assert!(!may(&database, Right::Write, "/a/b") && may(&database, Right::Delete, "/a"));
    let missed = apply(&mut database, revoke("/a/b", "read"));
    assert_eq!(missed, Err(ChangeError::NotHeld("ada".to_owned(), path("/a/b"))));
    let unknown = AccountChange::Grant { to: to("eve"), given: given("/", "read") };
    assert_eq!(apply(&mut database, unknown), Err(ChangeError::NoAccount("eve".to_owned())));
    apply(&mut database, AccountChange::RemoveAccount { name: "ada".to_owned() }).expect("removed");
    apply(&mut database, add("ada")).expect("added again");
    assert!(!may(&database, Right::Delete, "/a"), "its rights went with it");
}

#[test]
fn members_have_the_rights_of_their_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    apply(&mut database, add("ada")).expect("added");
    let member = |joins| AccountChange::Membership { name: "ada".to_owned(), group: "cut".to_owned(), joins };
    let grant = AccountChange::Grant { to: Grantee::Group("cut".to_owned()), given: given("/raw", "read") };
    apply(&mut database, grant).expect("granted");
    let may = |database: &Database| in_force(database).may(Holder::Account("ada"), Right::Read, &path("/raw/x"));
    assert!(!may(&database));
    apply(&mut database, member(true)).expect("joined");
    assert!(may(&database));
    assert_eq!(database.accounts(&ListPart::default()).expect("a list")[0].groups, ["cut"]);
    apply(&mut database, member(false)).expect("left");
    assert!(!may(&database));
    assert_eq!(database.groups(&ListPart::default()).expect("a list").len(), 1, "it has a right");
}

#[test]
fn a_set_of_changes_keeps_those_that_can_be_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    let results = database.apply(&[add("ada"), add("ada"), add("bob")], ChangeAuthor::Client, NOW).expect("applied");
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(database.accounts(&ListPart::default()).expect("a list").len(), 2);
}

#[test]
fn users_of_the_configuration_are_taken_over_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    let users = ["ada", "bob"].map(|name| (name.to_owned(), "$argon2id$a".to_owned()));
    assert_eq!(database.take_over(&users, NOW).expect("taken over"), ["ada", "bob"]);
    assert!(in_force(&database).may(Holder::Account("ada"), Right::Administer, &path("/")));
    apply(&mut database, AccountChange::RemoveAccount { name: "ada".to_owned() }).expect("removed");
    assert!(database.take_over(&users, NOW).expect("taken over").is_empty(), "it was removed since");
}

#[test]
fn tokens_are_kept_as_hashes_and_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    apply(&mut database, add("ada")).expect("added");
    let token = |expires| AccountChange::AddToken {
        account: "ada".to_owned(),
        label: "player".to_owned(),
        within: given("/a", "read"),
        expires,
    };
    let (id, text) = new(apply(&mut database, token(None)));
    let (_, short) = new(apply(&mut database, token(Some(NOW + 10))));
    let valid = |database: &Database, text: &str| of_token(&in_force(database), text).is_ok();
    assert!(valid(&database, &text));
    let raw = std::fs::read(folder.path().join(crate::FILE)).expect("the file");
    assert!(!raw.windows(text.len()).any(|window| window == text.as_bytes()), "its text is not kept");
    database.look_after(&[(id, NOW + 20)], NOW + 20).expect("looked after");
    assert_eq!(database.tokens(Some("ada"), &ListPart::default()).expect("a list")[0].last_used, Some(NOW + 20));
    assert!(!valid(&database, &short), "it ended, whatever the clock says now");
    let of_bob = AccountChange::RevokeToken { id, of: Some("bob".to_owned()) };
    assert_eq!(apply(&mut database, of_bob), Err(ChangeError::NoToken(id)));
    apply(&mut database, AccountChange::RevokeToken { id, of: None }).expect("revoked");
    assert!(!valid(&database, &text));
}

#[test]
fn a_keeper_writes_the_ends_of_tokens_when_it_stops() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    apply(&mut database, add("ada")).expect("added");
    let (account, label) = ("ada".to_owned(), "player".to_owned());
    // It ended too long ago to be kept.
    new(apply(
        &mut database,
        AccountChange::AddToken { account, label, within: given("/a", "read"), expires: Some(1) },
    ));
    drop(Keeper::start(folder.path(), &[], &Arc::<Accounts>::default()).expect("started"));
    assert_eq!(database.tokens(None, &ListPart::default()).expect("a list"), []);
}

#[test]
fn a_token_is_made_for_rights_that_its_user_has_by_itself_or_by_a_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    apply(&mut database, add("ada")).expect("added");
    let mut ask = |folder: &str, rights: &str| {
        let (account, label) = ("ada".to_owned(), String::new());
        let change = AccountChange::AddToken { account, label, within: given(folder, rights), expires: None };
        apply(&mut database, change).map(|_| ())
    };
    let beyond = |rights: &str, folder| {
        Err(ChangeError::BeyondUser("ada".to_owned(), rights.parse().expect("rights"), path(folder)))
    };
    assert_eq!(ask("/", "read,write"), beyond("write", "/"));
    assert_eq!(ask("/", "read"), Ok(()), "all may, where the settings say so");
    let to = Grantee::Account("ada".to_owned());
    let joins = AccountChange::Membership { name: "ada".to_owned(), group: "cut".to_owned(), joins: true };
    for change in [
        AccountChange::Grant { to, given: given("/a", "write") },
        AccountChange::Grant { to: Grantee::Group("cut".to_owned()), given: given("/b/c", "delete") },
        joins,
    ] {
        apply(&mut self::database(folder.path()), change).expect("changed");
    }
    assert_eq!((ask("/", "write,delete"), ask("/a/b", "write"), ask("/b", "delete")), (Ok(()), Ok(()), Ok(())));
    assert_eq!(ask("/a", "write,delete"), beyond("delete", "/a"));
    assert_eq!(ask("/b", "write,admin"), beyond("write,admin", "/b"));
}

#[test]
fn links_are_valid_until_they_are_revoked_or_their_key_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    let from = "192.0.2.1".parse().expect("an address");
    let valid = |database: &Database, text: &str| match of_link(&in_force(database), text, from) {
        Ok(principal) => matches!(principal, Principal::Link(_)),
        Err(_) => false,
    };
    let (id, text) = new(apply(&mut database, AccountChange::AddLink(wish("/a", "read"))));
    let (_, other) = new(apply(&mut database, AccountChange::AddLink(wish("/a", "read"))));
    assert!(valid(&database, &text) && valid(&database, &other) && text != other);
    assert_eq!(
        database.links(None, &ListPart::default()).expect("a list")[0].share.as_deref(),
        Some(text.as_str()),
        "it is shown again"
    );
    apply(&mut database, AccountChange::RevokeLink { id, of: None }).expect("revoked");
    assert!(!valid(&database, &text) && valid(&database, &other));
    apply(&mut database, AccountChange::RotateKeys).expect("rotated");
    assert!(!valid(&database, &other));
    let (_, text) =
        new(apply(&mut database, AccountChange::AddLink(LinkWish { expires: NOW + 1, ..wish("/a", "read") })));
    database.look_after(&[], NOW + 2).expect("looked after");
    assert!(!valid(&database, &text));
    assert_eq!(database.links(None, &ListPart::default()).expect("a list").last().expect("it is listed").share, None);
}

#[test]
fn uses_and_bytes_of_a_link_are_counted_up_to_their_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    let limited = LinkWish { uses: Some(2), stored: Some(100), ..wish("/a", "write") };
    let (id, _) = new(apply(&mut database, AccountChange::AddLink(limited)));
    let mut count = |uses, stored| apply(&mut database, AccountChange::UseLink { id, uses, stored });
    assert!(count(1, 0).is_ok() && count(1, 60).is_ok());
    assert_eq!(count(1, 0), Err(ChangeError::UsedUp(2)));
    assert!(count(-1, 0).is_ok() && count(1, 0).is_ok(), "one that was given back");
    assert_eq!(count(0, 60), Err(ChangeError::StoredFull { limit: 100, used: 60, more: 60 }));
    assert!(count(0, -20).is_ok() && count(0, 60).is_ok());
    let entry = &database.links(None, &ListPart::default()).expect("a list")[0];
    assert_eq!((entry.used, entry.stored), (2, 100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_server_and_of_commands_are_in_force_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let accounts = Arc::<Accounts>::default();
    let keeper = Keeper::start(folder.path(), &[], &accounts).expect("started");
    let knows = |name: &str| accounts.facts().accounts.contains_key(name);
    assert_eq!(keeper.change(add("ada")).await, Ok(Changed::Done));
    assert!(knows("ada"));
    assert_eq!(keeper.change(add("ada")).await, Err(ChangeError::AccountExists("ada".to_owned())));
    let logged = Arc::<std::sync::Mutex<Vec<String>>>::default();
    let log = Arc::clone(&logged);
    keeper.hear(move |line| {
        match line {
            CommandNotice::Made(call, about) => log.lock().expect("no panic").push(format!("{call} {about}")),
            CommandNotice::Shares(given) => return Some(format!("no {} of {}", given.rights, given.folder)),
        }
        None
    });
    let state = folder.path().to_owned();
    let command = move || {
        let change = add("bob");
        apply(&mut database(&state), change.clone()).expect("added");
        announce(&state, Some(&change))
    };
    assert!(tokio::task::spawn_blocking(command).await.expect("no panic"), "a server answers");
    assert!(knows("bob"));
    assert_eq!(*logged.lock().expect("no panic"), ["AddUser /users/bob"]);
    let state = folder.path().to_owned();
    let asked = tokio::task::spawn_blocking(move || link_objection(&state, &given("/a b", "read")));
    assert_eq!(asked.await.expect("no panic").expect("an answer"), Some("no read of /a b".to_owned()));
    drop(keeper);
    assert!(!announce(folder.path(), None), "there is no server any more");
}

#[test]
fn a_program_that_announces_its_change_too_slowly_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let _keeper = Keeper::start(folder.path(), &[], &Arc::<Accounts>::default()).expect("started");
    let mut slow = UnixStream::connect(folder.path().join("accounts.sock")).expect("connected");
    let most = 4000;
    let taken = (0..most).take_while(|_| {
        std::thread::sleep(Duration::from_millis(2));
        slow.write_all(b"a").is_ok()
    });
    assert!(taken.count() < most, "its line has one time, and not each of its bytes");
    assert!(announce(folder.path(), None), "the next one is heard");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_cannot_be_written_keeps_the_facts_in_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let accounts = Arc::<Accounts>::default();
    let keeper = Keeper::start(folder.path(), &[], &accounts).expect("started");
    keeper.change(add("ada")).await.expect("added");
    let other = rusqlite::Connection::open(folder.path().join(crate::FILE)).expect("opened");
    other.execute_batch("DROP TABLE link_key; CREATE TABLE link_key (x)").expect("broken");
    let refused = keeper.change(AccountChange::AddLink(wish("/", "read"))).await;
    assert!(matches!(refused, Err(ChangeError::Unavailable(_))), "{refused:?}");
    assert!(accounts.facts().accounts.contains_key("ada"));
}

#[test]
fn a_list_comes_in_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    for name in ["ada", "bob", "eve"] {
        apply(&mut database, add(name)).expect("added");
        let link = LinkWish { by: Some(name.to_owned()), ..wish("/a", "read") };
        apply(&mut database, AccountChange::AddLink(link)).expect("made");
        let group = AccountChange::Membership { name: name.to_owned(), group: format!("of-{name}"), joins: true };
        apply(&mut database, group).expect("joined");
    }
    let named = |after: &str| ListPart { after: after.to_owned(), limit: 2 };
    let names = |after| database.accounts(&named(after)).expect("a list").into_iter().map(|entry| entry.name);
    assert_eq!(
        (names("").collect::<Vec<_>>(), names("bob").collect::<Vec<_>>()),
        (vec!["ada".into(), "bob".into()], vec!["eve".into()])
    );
    assert_eq!(database.groups(&named("of-ada")).expect("a list").len(), 2);
    let numbers = |of, after| {
        let links = database.links(of, &ListPart { after, limit: 2 }).expect("a list");
        links.into_iter().map(|link| link.id).collect::<Vec<_>>()
    };
    assert_eq!((numbers(None, 0), numbers(None, 2), numbers(Some("eve"), 0)), (vec![1, 2], vec![3], vec![3]));
}

#[test]
fn a_browsers_login_ends_unused_with_its_password_and_behind_newer_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    apply(&mut database, add("ada")).expect("added");
    let login = |database: &mut Database| {
        let (account, label) = ("ada".to_owned(), "browser".to_owned());
        new(apply(database, AccountChange::AddLogin { account, label, expires: u64::MAX >> 1, idle: 100 }))
    };
    let (id, text) = login(&mut database);
    let accounts = in_force(&database);
    // The clock of the facts is the system's, long before these.
    assert!(of_browser(&accounts, &text).is_ok() && of_token(&accounts, &text).is_err());
    assert!(database.tokens(None, &ListPart::default()).expect("a list")[0].is_login);
    database.look_after(&[(id, NOW + 50)], NOW + 120).expect("noted");
    assert!(of_browser(&in_force(&database), &text).is_ok(), "it was used");
    database.look_after(&[], NOW + 150).expect("ended");
    assert!(of_browser(&in_force(&database), &text).is_err());
    let texts: Vec<_> = (0..33).map(|_| login(&mut database).1).collect();
    let accounts = in_force(&database);
    assert!(of_browser(&accounts, &texts[0]).is_err() && of_browser(&accounts, &texts[1]).is_ok(), "32 at most");
    let password = AccountChange::SetPassword { name: "ada".to_owned(), password_hash: "other".to_owned() };
    apply(&mut database, password).expect("set");
    assert!(of_browser(&in_force(&database), &texts[32]).is_err());
}

#[test]
fn the_first_account_is_made_once_with_all_rights() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    let first = |name: &str| AccountChange::AddFirstAccount { name: name.to_owned(), password_hash: "hash".to_owned() };
    let identity = ProvenIdentity { subject: "1".to_owned(), name: "bob".to_owned(), groups: None, may_add: true };
    let login = AccountChange::AddProvenLogin { identity, label: String::new(), expires: NOW + 300, idle: 100 };
    new(apply(&mut database, login));
    assert_eq!(apply(&mut database, first("bob")), Err(ChangeError::AccountExists("bob".to_owned())));
    assert!(!in_force(&database).has_administrator(), "a login of the provider makes none");
    assert_eq!(apply(&mut database, first("ada")), Ok(Changed::Done));
    assert!(in_force(&database).may(Holder::Account("ada"), Right::Administer, &path("/")));
    assert_eq!(apply(&mut database, first("eve")), Err(ChangeError::NotFirst));
}

#[test]
fn the_last_administrator_stays_until_there_is_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    let ada = AccountChange::AddFirstAccount { name: "ada".to_owned(), password_hash: "hash".to_owned() };
    for change in [ada, add("bob")] {
        apply(&mut database, change).expect("added");
    }
    let remove = || AccountChange::RemoveAccount { name: "ada".to_owned() };
    let revoke = |of: Grantee, rights| AccountChange::Revoke { of, taken: given("/", rights) };
    let membership = |joins| AccountChange::Membership { name: "bob".to_owned(), group: "ops".to_owned(), joins };
    let ops = || Grantee::Group("ops".to_owned());
    let refused = Err(ChangeError::LastAdministrator);
    for change in [remove(), revoke(to("ada"), "admin"), revoke(to("ada"), "read,admin")] {
        assert_eq!(apply(&mut database, change.clone()), refused, "{change:?}");
    }
    let facts = database.facts().expect("facts");
    assert_eq!(facts.accounts["ada"].rights.as_ref(), [FolderRights::all()], "nothing was changed");
    apply(&mut database, revoke(to("ada"), "share")).expect("a right of another kind");
    for change in [membership(true), AccountChange::Grant { to: ops(), given: given("/", "admin") }, remove()] {
        assert_eq!(apply(&mut database, change), Ok(Changed::Done), "bob administers by a group");
    }
    for change in [membership(false), revoke(ops(), "admin")] {
        assert_eq!(apply(&mut database, change.clone()), refused, "{change:?}");
    }
    let by_command = database.apply(&[membership(false)], ChangeAuthor::Operator, NOW).expect("the database works");
    assert_eq!(by_command, [Ok(Changed::Done)], "the operator can make another one at any time");
}

#[test]
fn an_identity_has_one_account_and_an_account_one_identity() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = database(folder.path());
    apply(&mut database, add("ada")).expect("added");
    let identity = |subject: &str, name: &str, may_add: bool, groups: Option<&[&str]>| ProvenIdentity {
        subject: format!("https://id.example {subject}"),
        name: name.to_owned(),
        groups: groups.map(|groups| groups.iter().map(|group| (*group).to_owned()).collect()),
        may_add,
    };
    let mut login = |identity: ProvenIdentity| {
        let login = AccountChange::AddProvenLogin { identity, label: String::new(), expires: NOW + 300, idle: 100 };
        let changed = apply(&mut database, login)?;
        let accounts = in_force(&database);
        let groups =
            |name: &str| accounts.facts().accounts[name].groups.iter().map(|group| group.to_string()).collect();
        match of_browser(&accounts, &new(Ok(changed)).1).expect("a login").1 {
            Principal::Account(account) => {
                let name = account.name().to_owned();
                let groups: Vec<String> = groups(&name);
                Ok((name, groups))
            }
            other => panic!("no account: {other:?}"),
        }
    };
    let found = |name: &str, groups: &[&str]| {
        Ok((name.to_owned(), groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>()))
    };
    assert_eq!(login(identity("1", "ada", false, Some(&["cut", "mix"]))), found("ada", &["cut", "mix"]));
    assert_eq!(login(identity("1", "adele", true, None)), found("ada", &["cut", "mix"]), "another name since");
    assert_eq!(login(identity("1", "ada", false, Some(&["mix"]))), found("ada", &["mix"]));
    let taken = ChangeError::OtherIdentity("ada".to_owned());
    assert_eq!(login(identity("2", "ada", true, Some(&["cut"]))), Err(taken), "the name of another");
    let missing = ChangeError::NotAdded("bob".to_owned());
    assert_eq!(login(identity("2", "bob", false, None)), Err(missing));
    assert_eq!(login(identity("2", "bob", true, None)), found("bob", &[]));
    let facts = database.facts().expect("facts");
    assert!(facts.accounts["bob"].password_hash.is_none() && facts.accounts["ada"].password_hash.is_some());
    assert!(facts.accounts["bob"].rights.is_empty());
}
