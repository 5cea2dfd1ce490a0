//! A session with a master: opened, one subtree registered, questions answered, notifications sent.
//!
//! Promise: to any message of the master, the answer is at most `VARIABLES_MAX` variables beyond one for each in its question.

use crate::objects::{MibObjects, MibValue};
use crate::oid::Oid;
use crate::pdu::{AgentxHeader, MasterMessage, NOTIFY, OPEN, PING, REGISTER, RESPONSE, SearchRange};
use crate::wire::{MasterMalformed, WireWriter};

/// Variables after which a bulk answer ends; a master continues from there with another question.
const VARIABLES_MAX: usize = 1024;
/// Priority of a registration among others of the same subtree (RFC 2741 §6.2.3: the default).
const PRIORITY: u8 = 127;

const NOT_WRITABLE: u16 = 17;
const UNSUPPORTED_CONTEXT: u16 = 262;
const NO_SUCH_OBJECT: u16 = 128;
const END_OF_MIB_VIEW: u16 = 130;

/// `sysUpTime.0` and `snmpTrapOID.0`, which a notification begins with (RFC 3416 §4.2.6).
const TRAP_NAME: [u32; 11] = [1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0];

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct AgentxSettings {
    /// Description of this program, for the master's own table of sessions.
    pub description: String,
    /// The subtree that this program answers for.
    pub root: Oid,
    /// Seconds that the master waits for an answer.
    pub answer_seconds: u8,
}

/// Refusal of a session by the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MasterRefusal {
    /// A message of it cannot be read.
    #[error(transparent)]
    Malformed(#[from] MasterMalformed),
    /// It refuses the session, or the subtree.
    #[error("it refuses {0}: {1}")]
    Answer(&'static str, MasterError),
    /// It ends the session.
    #[error("it closed the session (reason {0})")]
    Closed(u8),
}

/// Reason of a master's refusal (RFC 2741 §6.2.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MasterError(u16);

impl std::fmt::Display for MasterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            256 => f.write_str("it cannot open a session"),
            257 => f.write_str("it knows no such session"),
            263 => f.write_str(
                "another program, perhaps a second one of this kind, answers for it already, and an agent takes one only: end \
                 the other, or give each an agent of its own",
            ),
            266 => f.write_str("it cannot read the message"),
            267 => f.write_str("it does not permit it"),
            268 => f.write_str("it is busy"),
            other => write!(f, "error {other}"),
        }
    }
}

/// Effect of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentxEffect {
    /// Nothing.
    None,
    /// These bytes go to the master.
    Send(Vec<u8>),
    /// The subtree is ours from now on.
    Registered,
    /// The master did not take a notification, or does not know us any more.
    NotTaken(MasterError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentxState {
    Opening,
    Registering,
    Registered,
}

/// A session.
#[derive(Debug)]
pub struct AgentxSession {
    settings: AgentxSettings,
    state: AgentxState,
    id: u32,
    packets: u32,
}

impl AgentxSession {
    /// A session, and the bytes that it begins with.
    #[must_use]
    pub fn open(settings: AgentxSettings) -> (Self, Vec<u8>) {
        let mut payload = WireWriter::default();
        [settings.answer_seconds, 0, 0, 0].into_iter().for_each(|byte| payload.byte(byte));
        settings.root.write(&mut payload);
        payload.text(settings.description.as_bytes());
        let mut session = Self { settings, state: AgentxState::Opening, id: 0, packets: 0 };
        let open = session.ours(OPEN, &payload);
        (session, open)
    }

    /// Takes a message of the master; `objects` gives all there are, if the message needs them.
    ///
    /// # Errors
    /// The session is of no use any more.
    pub fn take(
        &mut self,
        header: &AgentxHeader,
        payload: &[u8],
        objects: impl FnOnce() -> MibObjects,
    ) -> Result<AgentxEffect, MasterRefusal> {
        let answer = |error, variables: &WireWriter| {
            let mut body = WireWriter::default();
            // The master's own time stands there in its answers to us; of ours it takes no notice.
            body.u32(0);
            body.u16(error);
            body.u16(u16::from(error != 0));
            body.0.extend(&variables.0);
            let head = AgentxHeader::ours(RESPONSE, header.session, header.transaction, header.packet);
            Ok(AgentxEffect::Send(head.with(&body)))
        };
        let none = WireWriter::default();
        match MasterMessage::read(header, payload)? {
            MasterMessage::Get(ranges) => answer(0, &exact(&ranges, &objects())),
            MasterMessage::GetNext(ranges) => answer(0, &next(&ranges, 0, 1, &objects())),
            MasterMessage::GetBulk { once, repetitions, ranges } => {
                answer(0, &next(&ranges, once, repetitions, &objects()))
            }
            MasterMessage::TestSet => answer(NOT_WRITABLE, &none),
            MasterMessage::CommitOrUndoSet => answer(0, &none),
            MasterMessage::OtherContext => answer(UNSUPPORTED_CONTEXT, &none),
            MasterMessage::CleanupSet => Ok(AgentxEffect::None),
            MasterMessage::Close { reason } => Err(MasterRefusal::Closed(reason)),
            MasterMessage::Response { error } => self.answered(header, error),
        }
    }

    /// Takes the answer to a message of ours.
    fn answered(&mut self, header: &AgentxHeader, error: u16) -> Result<AgentxEffect, MasterRefusal> {
        let refused = |what| Err(MasterRefusal::Answer(what, MasterError(error)));
        match self.state {
            AgentxState::Opening | AgentxState::Registering if header.packet != self.packets => {
                Err(MasterMalformed::Unasked.into())
            }
            AgentxState::Opening if error != 0 => refused("the session"),
            AgentxState::Registering if error != 0 => refused("our part of the tree"),
            AgentxState::Opening => {
                (self.id, self.state) = (header.session, AgentxState::Registering);
                let mut payload = WireWriter::default();
                // The master's own patience, one name and not a range of them.
                [0, PRIORITY, 0, 0].into_iter().for_each(|byte| payload.byte(byte));
                self.settings.root.write(&mut payload);
                Ok(AgentxEffect::Send(self.ours(REGISTER, &payload)))
            }
            AgentxState::Registering => {
                self.state = AgentxState::Registered;
                Ok(AgentxEffect::Registered)
            }
            AgentxState::Registered if error != 0 => Ok(AgentxEffect::NotTaken(MasterError(error))),
            AgentxState::Registered => Ok(AgentxEffect::None),
        }
    }

    /// Builds a question that a living master answers.
    pub fn ping(&mut self) -> Vec<u8> {
        self.ours(PING, &WireWriter::default())
    }

    /// A notification: its name and its variables.
    pub fn notify(&mut self, name: &Oid, variables: &[(Oid, MibValue)]) -> Vec<u8> {
        let mut payload = WireWriter::default();
        // The master puts its own `sysUpTime.0` in front.
        MibValue::Name(name.clone()).write(&Oid::new(&TRAP_NAME), &mut payload);
        variables.iter().for_each(|(name, value)| value.write(name, &mut payload));
        self.ours(NOTIFY, &payload)
    }

    fn ours(&mut self, kind: u8, payload: &WireWriter) -> Vec<u8> {
        self.packets = self.packets.wrapping_add(1);
        AgentxHeader::ours(kind, self.id, 0, self.packets).with(payload)
    }
}

fn nothing(code: u16, name: &Oid, to: &mut WireWriter) {
    to.u16(code);
    to.u16(0);
    name.write(to);
}

fn exact(ranges: &[SearchRange], objects: &MibObjects) -> WireWriter {
    let mut to = WireWriter::default();
    for SearchRange { start, .. } in ranges {
        match objects.exact(start) {
            Some(value) => value.write(start, &mut to),
            None => nothing(NO_SUCH_OBJECT, start, &mut to),
        }
    }
    to
}

/// The objects that follow: of the first `once` ranges one, of the others up to `repetitions` (RFC 2741 §7.2.3.3).
fn next(ranges: &[SearchRange], once: usize, repetitions: usize, objects: &MibObjects) -> WireWriter {
    let mut to = WireWriter::default();
    let mut ranges = ranges.to_vec();
    let count = ranges.len();
    let (once, repeated) = ranges.split_at_mut(once.min(count));
    once.iter_mut().for_each(|range| {
        follow(range, objects, &mut to);
    });
    for repetition in 1..=repetitions {
        let found = repeated.iter_mut().map(|range| follow(range, objects, &mut to)).filter(|found| *found).count();
        if found == 0 || repetition * repeated.len() >= VARIABLES_MAX {
            break;
        }
    }
    to
}

/// Writes the first object of a range, if it has one, and takes it off the range.
fn follow(range: &mut SearchRange, objects: &MibObjects, to: &mut WireWriter) -> bool {
    let Some((name, value)) = objects.next((&range.start, range.is_included), range.end.as_ref()) else {
        nothing(END_OF_MIB_VIEW, &range.start, to);
        return false;
    };
    value.write(name, to);
    (range.start, range.is_included) = (name.clone(), false);
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pdu::PAYLOAD_BYTES_MAX;

    fn root() -> Oid {
        Oid::new(&[1, 3, 6, 1, 4, 1, 8072])
    }

    fn objects() -> MibObjects {
        let mut objects = MibObjects::default();
        for (column, row) in (1..4).flat_map(|column| (1..3).map(move |row| (column, row))) {
            objects.add(root().below(&[column, row]), MibValue::Gauge(column * 10 + row));
        }
        objects.add(root().below(&[9]), MibValue::Text("disk".to_owned()));
        objects
    }

    fn take(session: &mut AgentxSession, message: &[u8]) -> Result<AgentxEffect, MasterRefusal> {
        let (head, payload) = message.split_first_chunk().expect("a head");
        session.take(&AgentxHeader::read(head)?, payload, objects)
    }

    /// A message as a master sends it, in the byte order of an ordinary machine.
    fn message(kind: u8, packet: u32, payload: &[u8]) -> Vec<u8> {
        let numbers = [7, 8, packet, u32::try_from(payload.len()).expect("short")];
        [&[1, kind, 0, 0], numbers.map(u32::to_le_bytes).as_flattened(), payload].concat()
    }

    fn response(packet: u32, error: u16) -> Vec<u8> {
        message(RESPONSE, packet, &[&[0; 4][..], &error.to_le_bytes(), &[0; 2]].concat())
    }

    fn registered() -> AgentxSession {
        let settings = AgentxSettings { description: "test".to_owned(), root: root(), answer_seconds: 5 };
        let (mut session, _) = AgentxSession::open(settings);
        assert!(matches!(take(&mut session, &response(1, 0)), Ok(AgentxEffect::Send(_))));
        assert_eq!(take(&mut session, &response(2, 0)), Ok(AgentxEffect::Registered));
        session
    }

    /// A range of a question: names below the root, the end left out where it is empty.
    fn range(start: &[u32], is_included: bool, end: &[u32]) -> Vec<u8> {
        let name = |parts: &[u32], included: bool| {
            let count = u8::try_from(parts.len() + 1).expect("short");
            let (count, prefix) = if parts.is_empty() { (0, 0) } else { (count, 4) };
            let numbers = [&[1, 8072], parts].concat();
            let numbers = if count == 0 { &[] } else { &numbers[..] };
            let head = [u8::try_from(numbers.len()).expect("short"), prefix, u8::from(included), 0];
            [&head[..], &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>()].concat()
        };
        [name(start, is_included), name(end, false)].concat()
    }

    /// Types and names of the variables in an answer of ours, which hold numbers or nothing.
    fn answered(effect: Result<AgentxEffect, MasterRefusal>) -> Vec<(u16, Oid)> {
        let Ok(AgentxEffect::Send(bytes)) = effect else { panic!("no answer: {effect:?}") };
        let head = AgentxHeader::read(bytes.first_chunk().expect("a head")).expect("one of ours");
        assert_eq!((head.kind, head.session, head.transaction, head.packet), (RESPONSE, 7, 8, 5));
        let mut from = crate::wire::WireReader::new(&bytes[20..], true);
        assert_eq!((from.u32(), from.u16(), from.u16()), (Ok(0), Ok(0), Ok(0)));
        let mut variables = Vec::new();
        while !from.is_empty() {
            let (code, _) = (from.u16().expect("whole"), from.u16());
            variables.push((code, Oid::read(&mut from).expect("whole")));
            if code == 66 {
                from.u32().expect("whole");
            }
        }
        variables
    }

    #[test]
    fn a_session_opens_as_the_standard_has_it() {
        let settings = AgentxSettings { description: "ab".to_owned(), root: root(), answer_seconds: 5 };
        let (mut session, open) = AgentxSession::open(settings);
        let payload = [5, 0, 0, 0, 2, 4, 0, 0, 0, 0, 0, 1, 0, 0, 31, 136, 0, 0, 0, 2, 97, 98, 0, 0];
        assert_eq!(open, [&[1, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 24], &payload[..]].concat());
        let register = [0, 127, 0, 0, 2, 4, 0, 0, 0, 0, 0, 1, 0, 0, 31, 136];
        let expected = [&[1, 3, 16, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 16], &register[..]].concat();
        assert_eq!(take(&mut session, &response(1, 0)), Ok(AgentxEffect::Send(expected)));
        assert_eq!(take(&mut session, &response(2, 0)), Ok(AgentxEffect::Registered));
        assert_eq!(session.ping(), [1, 13, 16, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]);
        assert_eq!(take(&mut session, &response(3, 0)), Ok(AgentxEffect::None));
        assert_eq!(take(&mut session, &response(4, 257)), Ok(AgentxEffect::NotTaken(MasterError(257))));
    }

    #[test]
    fn a_master_that_refuses_is_understood() {
        let open =
            || AgentxSession::open(AgentxSettings { description: String::new(), root: root(), answer_seconds: 5 }).0;
        assert_eq!(take(&mut open(), &response(1, 256)), Err(MasterRefusal::Answer("the session", MasterError(256))));
        assert_eq!(take(&mut open(), &response(2, 0)), Err(MasterRefusal::Malformed(MasterMalformed::Unasked)));
        let mut session = open();
        assert!(take(&mut session, &response(1, 0)).is_ok());
        let said = take(&mut session, &response(2, 263)).expect_err("taken by another").to_string();
        assert_eq!(
            said,
            "it refuses our part of the tree: another program, perhaps a second one of this kind, answers for it already, and an \
             agent takes one only: end the other, or give each an agent of its own"
        );
        assert_eq!(take(&mut registered(), &message(2, 1, &[5, 0, 0, 0])), Err(MasterRefusal::Closed(5)));
    }

    #[test]
    fn questions_get_the_objects_in_order() {
        let mut session = registered();
        let mut ask = |kind, payload: &[u8]| answered(take(&mut session, &message(kind, 5, payload)));
        let named = |parts: &[u32]| root().below(parts);
        let get = ask(5, &[range(&[1, 2], false, &[]), range(&[1, 7], false, &[])].concat());
        assert_eq!(get, [(66, named(&[1, 2])), (NO_SUCH_OBJECT, named(&[1, 7]))]);
        let next = [range(&[1, 2], false, &[]), range(&[1, 2], true, &[]), range(&[3, 2], false, &[4])].concat();
        let expected = [(66, named(&[2, 1])), (66, named(&[1, 2])), (END_OF_MIB_VIEW, named(&[3, 2]))];
        assert_eq!(ask(6, &next), expected);
        let bulk = [&[1, 0, 4, 0][..], &range(&[1, 1], false, &[9]), &range(&[3], false, &[9])].concat();
        let expected =
            [(66, named(&[1, 2])), (66, named(&[3, 1])), (66, named(&[3, 2])), (END_OF_MIB_VIEW, named(&[3, 2]))];
        assert_eq!(ask(7, &bulk), expected);
    }

    #[test]
    fn nothing_is_set_and_no_context_is_known() {
        let refusal = |kind, flags| {
            let mut question = message(kind, 5, &[0; 4]);
            question[2] = flags;
            let Ok(AgentxEffect::Send(bytes)) = take(&mut registered(), &question) else { panic!("no answer") };
            u16::from_be_bytes([bytes[24], bytes[25]])
        };
        assert_eq!((refusal(8, 0), refusal(9, 0), refusal(10, 0)), (NOT_WRITABLE, 0, 0));
        assert_eq!((refusal(6, 8), refusal(8, 8)), (UNSUPPORTED_CONTEXT, UNSUPPORTED_CONTEXT));
        assert_eq!(take(&mut registered(), &message(11, 5, &[])), Ok(AgentxEffect::None));
    }

    #[test]
    fn a_bulk_answer_ends() {
        let mut session = registered();
        let ranges = range(&[1, 1], false, &[]).repeat(300);
        let bulk = message(7, 5, &[&[0, 0, 255, 255][..], &ranges].concat());
        let Ok(AgentxEffect::Send(bytes)) = take(&mut session, &bulk) else { panic!("no answer") };
        // Four repetitions pass the bound; a variable has 28 bytes.
        assert_eq!(bytes.len(), 20 + 8 + 4 * 300 * 28);
    }

    #[test]
    fn an_oversized_message_is_refused_before_it_is_read() {
        let head = |payload_bytes: u32| {
            let bytes = message(6, 5, &[]);
            let head = [&bytes[..16], &payload_bytes.to_le_bytes()].concat();
            AgentxHeader::read(head.first_chunk().expect("a head")).map(|head| head.payload_bytes)
        };
        assert_eq!(head(PAYLOAD_BYTES_MAX), Ok(PAYLOAD_BYTES_MAX));
        assert_eq!(head(PAYLOAD_BYTES_MAX + 4), Err(MasterMalformed::Length(PAYLOAD_BYTES_MAX + 4)));
        assert_eq!(head(6), Err(MasterMalformed::Length(6)));
        let long = message(6, 5, &[&[125, 4, 0, 0][..], &[0; 4 * 125]].concat());
        assert_eq!(take(&mut registered(), &long), Err(MasterMalformed::LongName(130).into()));
        assert_eq!(
            take(&mut registered(), &message(6, 5, &[2, 0, 0, 0, 1, 0, 0, 0])),
            Err(MasterMalformed::Short.into())
        );
        assert_eq!(take(&mut registered(), &message(99, 5, &[])), Err(MasterMalformed::Type(99).into()));
    }

    proptest! {
        /// Each message is answered within the bound, or refused.
        #[test]
        fn nothing_that_comes_panics(
            kind in prop_oneof![Just(5u8), Just(6), Just(7), Just(8), Just(2), Just(RESPONSE), any::<u8>()],
            flags in any::<u8>(),
            noise in prop::collection::vec(prop_oneof![0u8..6, any::<u8>()], 0..400),
            good in prop::collection::vec((0u32..10, 0u32..4, any::<bool>()), 0..8),
        ) {
            let ranges: Vec<u8> =
                good.iter().flat_map(|(column, row, included)| range(&[*column, *row], *included, &[])).collect();
            for payload in [&noise, &ranges, &[&noise[..], &ranges].concat(), &[&ranges[..], &noise].concat()] {
                let payload = &payload[..payload.len() / 4 * 4];
                let mut question = message(kind, 5, payload);
                question[2] = flags & !16;
                if let Ok(AgentxEffect::Send(bytes)) = take(&mut registered(), &question) {
                    // Each variable in a question is 8 bytes or more; of an answer it is at most 4 + 4 + 4 * 128 + 12.
                    let most = payload.len() / 8 + VARIABLES_MAX;
                    prop_assert!(bytes.len() <= 28 + most * 532, "{} bytes for {}", bytes.len(), payload.len());
                }
            }
        }
    }
}
