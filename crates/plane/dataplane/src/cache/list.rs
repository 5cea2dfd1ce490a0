//! A list of some of the numbers below a bound, each at most once: put in at either end and taken out anywhere, in one step.
//!
//! Promise: no allocation after construction. Not here: the meaning of the numbers.

#[derive(Debug, Clone, Copy)]
struct ListLink {
    previous: u32,
    next: u32,
}

/// The list.
#[derive(Debug)]
pub(super) struct NumberList {
    /// A link for each number, and one behind them that joins the ends to a ring.
    links: Box<[ListLink]>,
    count: u32,
}

impl NumberList {
    /// An empty list of numbers below `bound`.
    pub(super) fn new(bound: u32) -> Self {
        let links = vec![ListLink { previous: bound, next: bound }; bound as usize + 1];
        Self { links: links.into_boxed_slice(), count: 0 }
    }

    /// How many are in it.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let next = |at: u32| Some(self.links[at as usize].next).filter(|&next| next != self.ends());
        std::iter::successors(next(self.ends()), move |&at| next(at))
    }

    pub(super) fn push_first(&mut self, number: u32) {
        self.insert(number, self.ends(), self.links[self.ends() as usize].next);
    }

    pub(super) fn push_last(&mut self, number: u32) {
        self.insert(number, self.links[self.ends() as usize].previous, self.ends());
    }

    /// Takes out a number that is in it.
    pub(super) fn remove(&mut self, number: u32) {
        let ListLink { previous, next } = self.links[number as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        self.count -= 1;
    }

    fn insert(&mut self, number: u32, previous: u32, next: u32) {
        self.links[number as usize] = ListLink { previous, next };
        self.links[previous as usize].next = number;
        self.links[next as usize].previous = number;
        self.count += 1;
    }

    fn ends(&self) -> u32 {
        u32::try_from(self.links.len() - 1).expect("made from a u32")
    }
}
