//! Groups of backends that compute shards of one graph, and sum values over their ranks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use graph::Rank;

use crate::Error;

/// A backend's place in a group.
#[derive(Clone, Debug)]
pub struct Member {
    /// Which rank it is.
    pub rank: Rank,
    group: Arc<Group>,
}

/// The bytes by which the members of a group find each other in a library of collectives.
pub type GroupId = [u8; 128];

/// What the members of a group share.
struct Group {
    ranks: usize,
    state: Mutex<State>,
    changed: Condvar,
    id: OnceLock<Result<GroupId, Error>>,
    on_failure: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

#[derive(Default)]
struct State {
    summands: Vec<Vec<f32>>,
    /// Members that have given theirs, or have read those of all.
    arrived: usize,
    rounds: u64,
    /// Why the current step has ended early.
    failure: Option<Error>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("ranks", &self.ranks).finish_non_exhaustive()
    }
}

impl Member {
    /// The members of a new group, by rank.
    pub fn group(ranks: usize) -> Vec<Member> {
        let state = Mutex::new(State { summands: vec![Vec::new(); ranks], ..State::default() });
        let (changed, id, on_failure) = (Condvar::new(), OnceLock::new(), Mutex::default());
        let group = Arc::new(Group { ranks, state, changed, id, on_failure });
        (0..ranks).map(|rank| Member { rank: Rank { rank, ranks }, group: group.clone() }).collect()
    }

    /// Replaces `values`, as many on each rank, by their sums over all ranks, and waits for the others. Summands are added in the
    /// order of the ranks, so that all get the same bits, each time. The error is that of a member that failed ([`Member::fail`]).
    pub fn all_reduce(&self, values: &mut [f32]) -> Result<(), Error> {
        let group = &*self.group;
        let mut state = lock(&group.state);
        let own = &mut state.summands[self.rank.rank];
        own.clear();
        own.extend_from_slice(values);
        let state = group.meet(state)?;
        for (i, sum) in values.iter_mut().enumerate() {
            *sum = state.summands.iter().map(|summands| summands[i]).sum();
        }
        // No member gives summands of the next sum before all have read these.
        group.meet(state).map(drop)
    }

    /// Ends the step of the other members, which would wait for this one, with `error`. A failure of the device also ends what
    /// they wait for on their devices ([`Member::on_failure`]).
    pub fn fail(&self, error: &Error) {
        lock(&self.group.state).failure.get_or_insert_with(|| error.clone());
        self.group.changed.notify_all();
        if matches!(error, Error::Device { .. }) {
            lock(&self.group.on_failure).iter().for_each(|end| end());
        }
    }

    /// Prepares the group for a step, when no member computes.
    pub fn begin(&self) {
        let mut state = lock(&self.group.state);
        (state.failure, state.arrived) = (None, 0);
    }

    /// Registers `end`, which ends what members wait for on their devices.
    pub fn on_failure(&self, end: impl Fn() + Send + Sync + 'static) {
        lock(&self.group.on_failure).push(Box::new(end));
    }

    /// The id of the group. The first member that asks for it calls `make`.
    pub fn id(&self, make: impl FnOnce() -> Result<GroupId, Error>) -> Result<GroupId, Error> {
        self.group.id.get_or_init(make).clone()
    }
}

impl Group {
    /// Waits until all members have called it as often as this one.
    fn meet<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>, Error> {
        let round = state.rounds;
        state.arrived += 1;
        if state.arrived == self.ranks {
            (state.arrived, state.rounds) = (0, round + 1);
            self.changed.notify_all();
        }
        while state.rounds == round {
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }
}

/// Locks `mutex` and ignores poisoning: the next step overwrites the data of a step that panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// Sums depend on the order: 1e8 + 1 is 1e8 in f32.
    #[test]
    fn all_ranks_get_the_same_sums_in_the_order_of_ranks() {
        let members = Member::group(3);
        let (summands, sums) = ([1e8f32, 1.0, -1e8], [0.0, 6.0]);
        for _ in 0..50 {
            thread::scope(|scope| {
                for (member, summand) in members.iter().zip(summands) {
                    scope.spawn(move || {
                        let rank = member.rank.rank as f32;
                        let mut values = [summand, rank + 1.0];
                        member.all_reduce(&mut values).expect("no member fails");
                        assert_eq!(values, sums);
                        // Again at once: summands of two sums do not mix.
                        let mut values = [rank];
                        member.all_reduce(&mut values).expect("no member fails");
                        assert_eq!(values, [3.0]);
                    });
                }
            });
        }
    }

    #[test]
    fn a_failure_ends_the_step_of_the_others_but_not_the_next() {
        let members = Member::group(2);
        let ended = Arc::new(AtomicUsize::new(0));
        let counted = ended.clone();
        members[1].on_failure(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let broken = Error::Device { device: "a card".to_owned(), why: "lost".to_owned() };
        for (error, expected) in [(Error::Interrupted, 0), (broken, 1)] {
            thread::scope(|scope| {
                let waiting = scope.spawn(|| members[0].all_reduce(&mut [1.0]));
                members[1].fail(&error);
                assert_eq!(waiting.join().expect("no panic"), Err(error));
            });
            assert_eq!(ended.load(Ordering::Relaxed), expected);
            members[0].begin();
            thread::scope(|scope| {
                for member in &members {
                    scope.spawn(|| {
                        let mut values = [1.0];
                        member.all_reduce(&mut values).expect("no member fails");
                        assert_eq!(values, [2.0]);
                    });
                }
            });
        }
    }

    #[test]
    fn one_member_makes_the_id() {
        let members = Member::group(2);
        assert_eq!(members[1].id(|| Ok([7; 128])), Ok([7; 128]));
        assert_eq!(members[0].id(|| panic!("it is made")), Ok([7; 128]));
    }
}
