//! The table of reads in flight: the request of a read, found again by the small number that went to the kernel.
//!
//! Promise: bounded, nothing allocated after `new`.

use dataplane::port::ReadRequest;

/// Reads in flight.
#[derive(Debug)]
pub(crate) struct ReadTable {
    requests: Box<[Option<ReadRequest>]>,
    free: Vec<u32>,
}

impl ReadTable {
    pub(crate) fn new(reads_max: usize) -> Self {
        let last = u32::try_from(reads_max).expect("a small table");
        Self { requests: vec![None; reads_max].into_boxed_slice(), free: (0..last).rev().collect() }
    }

    /// Takes a read in; none if the table is full.
    pub(crate) fn insert(&mut self, request: ReadRequest) -> Option<u32> {
        let index = self.free.pop()?;
        self.requests[usize::try_from(index).expect("usize holds a u32")] = Some(request);
        Some(index)
    }

    /// A read that is in flight.
    pub(crate) fn request(&self, index: u32) -> ReadRequest {
        self.requests[usize::try_from(index).expect("usize holds a u32")].expect("only reads in flight are asked for")
    }

    /// Takes a read out that is over.
    pub(crate) fn remove(&mut self, index: u32) -> ReadRequest {
        let place = &mut self.requests[usize::try_from(index).expect("usize holds a u32")];
        let request = place.take().expect("a read completes once");
        self.free.push(index);
        request
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.requests.len()
    }
}

#[cfg(test)]
mod tests {
    use dataplane::port::{FileSlot, Span, Token};
    use units::DiskId;

    use super::*;

    #[test]
    fn reads_are_found_again_and_the_table_is_bounded() {
        let read = |token| ReadRequest {
            token: Token(token),
            disk: DiskId(0),
            file: FileSlot(0),
            offset: 0,
            memory: Span { offset: 0, length: 4096 },
        };
        let mut table = ReadTable::new(2);
        let (a, b) = (table.insert(read(10)).unwrap(), table.insert(read(11)).unwrap());
        assert_eq!(table.insert(read(12)), None);
        assert_eq!(table.request(b).token, Token(11));
        assert_eq!(table.remove(a).token, Token(10));
        let c = table.insert(read(13)).unwrap();
        assert_eq!((table.remove(c).token, table.remove(b).token), (Token(13), Token(11)));
        assert!(table.is_empty());
    }
}
