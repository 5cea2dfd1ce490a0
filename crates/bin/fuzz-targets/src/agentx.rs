//! Messages of an AgentX master: any bytes give an answer, and that is as long as its head says.

use agentx::{AgentxEffect, AgentxHeader, AgentxSession, AgentxSettings, HEADER_BYTES, MibObjects, MibValue, Oid};

const ROOT: [u32; 7] = [1, 3, 6, 1, 4, 1, 62_999];

fn objects() -> MibObjects {
    let mut objects = MibObjects::default();
    objects.add(Oid::new(&ROOT).below(&[1, 0]), MibValue::Text("isocast".to_owned()));
    objects.add(Oid::new(&ROOT).below(&[2, 0]), MibValue::Counter(1));
    objects
}

/// The target.
pub fn target(bytes: &[u8]) {
    let settings = AgentxSettings { description: "fuzz".to_owned(), root: Oid::new(&ROOT), answer_seconds: 5 };
    let (mut session, _) = AgentxSession::open(settings);
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let Ok(header) = AgentxHeader::read(head) else { return };
        let length = usize::try_from(header.payload_bytes).expect("it is bounded");
        let Some((payload, behind)) = behind.split_at_checked(length) else { return };
        rest = behind;
        match session.take(&header, payload, objects) {
            Ok(AgentxEffect::Send(answer)) => {
                let announced = u32::from_be_bytes(answer[16..HEADER_BYTES].try_into().expect("four bytes"));
                assert_eq!(usize::try_from(announced).expect("short"), answer.len() - HEADER_BYTES);
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
