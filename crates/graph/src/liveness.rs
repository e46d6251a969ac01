//! How long values are needed, and which may use a buffer in turn.

use crate::Graph;

impl Graph {
    /// By value, the last value that reads it; itself where nobody does.
    pub fn last_reads(&self) -> Vec<usize> {
        let mut last: Vec<usize> = (0..self.values().len()).collect();
        for (id, value) in self.values() {
            value.op.inputs().for_each(|input| last[input.index()] = id.index());
        }
        last
    }
}

/// Something that needs a buffer of a shape from the time it is made until it is read last. Times only count up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRange<S> {
    /// What the buffer must be like.
    pub shape: S,
    /// When it is made.
    pub made: usize,
    /// When it is read last; [`LiveRange::LIVE_OUT`] when it is kept after the step.
    pub last_read: usize,
}

impl<S> LiveRange<S> {
    /// After everything.
    pub const LIVE_OUT: usize = usize::MAX;
}

/// Gives each of `lives`, in the order in which they are made, a buffer: one of its shape that is not read any more
/// when it is made, or a new one. Returns the buffers' shapes, and the buffer of each.
pub fn assign_buffers<S: PartialEq + Copy>(lives: &[LiveRange<S>]) -> (Vec<S>, Vec<usize>) {
    let (mut shapes, mut busy_until) = (Vec::<S>::new(), Vec::<usize>::new());
    let place = |life: &LiveRange<S>| {
        let is_free = |&buffer: &usize| shapes[buffer] == life.shape && busy_until[buffer] < life.made;
        let buffer = (0..shapes.len()).find(is_free).unwrap_or_else(|| {
            shapes.push(life.shape);
            busy_until.push(0);
            shapes.len() - 1
        });
        busy_until[buffer] = life.last_read.max(life.made);
        buffer
    };
    let buffers = lives.iter().map(place).collect();
    (shapes, buffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_shared_once_its_last_reader_is_done() {
        let life = |shape, made, last_read| LiveRange { shape, made, last_read };
        let lives = [
            life('a', 0, 1),
            life('a', 1, 2), // the first is read when this one is made
            life('a', 2, LiveRange::<char>::LIVE_OUT),
            life('b', 2, 3),
            life('a', 3, 4),
            life('a', 4, 4), // the one before is not read any more, the third is kept
        ];
        let (shapes, buffers) = assign_buffers(&lives);
        assert_eq!(shapes, ['a', 'a', 'b', 'a']);
        assert_eq!(buffers, [0, 1, 0, 2, 1, 3]);
    }
}
