//! Liveness of values, and buffer reuse.

use crate::Graph;

impl Graph {
    /// The last reader of each value, by index; the value itself if it has none.
    pub fn last_reads(&self) -> Vec<usize> {
        let mut last: Vec<usize> = (0..self.values().len()).collect();
        for (id, value) in self.values() {
            value.op.inputs().for_each(|input| last[input.index()] = id.index());
        }
        last
    }
}

/// The interval, on a monotonic clock, in which a value needs a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRange<S> {
    /// Shape of the buffer.
    pub shape: S,
    /// Time of the write.
    pub made: usize,
    /// Time of the last read; [`LiveRange::LIVE_OUT`] if it is read after the step.
    pub last_read: usize,
}

impl<S> LiveRange<S> {
    /// After the end of the step.
    pub const LIVE_OUT: usize = usize::MAX;
}

/// A buffer for each of `lives`, sorted by `made`: one of its shape that is free again, or a new one. Returns their shapes.
pub fn assign_buffers<S: PartialEq + Copy>(lives: &[LiveRange<S>]) -> (Vec<S>, Vec<usize>) {
    let (mut shapes, mut busy_until) = (Vec::<S>::new(), Vec::<usize>::new());
    let assign = |life: &LiveRange<S>| {
        let is_free = |&buffer: &usize| shapes[buffer] == life.shape && busy_until[buffer] < life.made;
        let buffer = (0..shapes.len()).find(is_free).unwrap_or_else(|| {
            shapes.push(life.shape);
            busy_until.push(0);
            shapes.len() - 1
        });
        busy_until[buffer] = life.last_read.max(life.made);
        buffer
    };
    let buffers = lives.iter().map(assign).collect();
    (shapes, buffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_after_their_last_read() {
        let life = |shape, made, last_read| LiveRange { shape, made, last_read };
        let lives = [
            life('a', 0, 1),
            life('a', 1, 2), // the first buffer is read in this step
            life('a', 2, LiveRange::<char>::LIVE_OUT),
            life('b', 2, 3),
            life('a', 3, 4),
            life('a', 4, 4), // reuses the second buffer; the third is live-out
        ];
        let (shapes, buffers) = assign_buffers(&lives);
        assert_eq!(shapes, ['a', 'a', 'b', 'a']);
        assert_eq!(buffers, [0, 1, 0, 2, 1, 3]);
    }
}
