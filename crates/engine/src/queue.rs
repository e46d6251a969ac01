//! The order in which waiting requests start.

use std::collections::BTreeMap;

use crate::ids::RequestId;

/// What the order of admission depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Whose request it is.
    pub(crate) client: u64,
    /// Requests of lower values start first.
    pub(crate) priority: i32,
    /// Whether it has run before.
    pub(crate) was_preempted: bool,
}

/// Waiting requests: those that were preempted first, then those of the client whose requests have had fewest rows; among
/// them by priority, so that no client can be before all others, then the oldest request.
///
/// Rows are counted as in start-time fair queueing (Goyal, Vin and Cheng 1996): a client that had no request starts with
/// the count of the least served one, so that no client saves up for later.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: BTreeMap<RequestId, Admission>,
    clients: BTreeMap<u64, Client>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    rows: u64,
    /// Its requests that wait or run.
    requests: usize,
}

impl Queue {
    /// A new request.
    pub(crate) fn submit(&mut self, id: RequestId, admission: Admission) {
        let least = self.clients.values().map(|client| client.rows).min().unwrap_or(0);
        let client = self.clients.entry(admission.client).or_insert(Client { rows: least, requests: 0 });
        client.requests += 1;
        self.waiting.insert(id, admission);
    }

    /// A running request waits again.
    pub(crate) fn wait(&mut self, id: RequestId, admission: Admission) {
        self.waiting.insert(id, admission);
    }

    /// A waiting request starts.
    pub(crate) fn start(&mut self, id: RequestId) {
        self.waiting.remove(&id);
    }

    /// A request has ended.
    pub(crate) fn end(&mut self, id: RequestId, client: u64) {
        self.waiting.remove(&id);
        if let Some(state) = self.clients.get_mut(&client) {
            state.requests -= 1;
            if state.requests == 0 {
                self.clients.remove(&client);
            }
        }
    }

    /// A client's request gets `rows` rows.
    pub(crate) fn charge(&mut self, client: u64, rows: usize) {
        if let Some(state) = self.clients.get_mut(&client) {
            state.rows += rows as u64;
        }
    }

    /// The next request for which `is_candidate` holds.
    pub(crate) fn next(&self, is_candidate: impl Fn(RequestId) -> bool) -> Option<RequestId> {
        let candidates = self.waiting.iter().filter(|(id, _)| is_candidate(**id));
        let key = |(id, admission): &(&RequestId, &Admission)| {
            let rows = self.clients.get(&admission.client).map_or(0, |client| client.rows);
            (!admission.was_preempted, rows, admission.priority, **id)
        };
        candidates.min_by_key(key).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which requests start, each with ten rows.
    fn order(queue: &mut Queue, clients: &BTreeMap<RequestId, u64>) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some(id) = queue.next(|_| true) {
            queue.start(id);
            queue.charge(clients[&id], 10);
            order.push(id.0);
        }
        order
    }

    fn queue(admissions: &[(u64, i32)]) -> (Queue, BTreeMap<RequestId, u64>) {
        let (mut queue, mut clients) = (Queue::default(), BTreeMap::new());
        for (id, &(client, priority)) in (0..).map(RequestId).zip(admissions) {
            queue.submit(id, Admission { client, priority, was_preempted: false });
            clients.insert(id, client);
        }
        (queue, clients)
    }

    #[test]
    fn clients_take_turns() {
        let (mut queue, clients) = queue(&[(7, 0), (7, 0), (7, 0), (7, 0), (8, 0), (9, 0), (8, 0)]);
        assert_eq!(order(&mut queue, &clients), [0, 4, 5, 1, 6, 2, 3]);
    }

    #[test]
    fn priorities_are_among_the_requests_of_a_client() {
        let (mut queue, clients) = queue(&[(7, 1), (7, 0), (7, -1), (8, 1), (8, 0)]);
        assert_eq!(order(&mut queue, &clients), [2, 4, 1, 3, 0]);
        let (mut queue, clients) = self::queue(&[(7, -9), (7, -9), (7, -9), (8, 0), (8, 5)]);
        assert_eq!(order(&mut queue, &clients), [0, 3, 1, 4, 2], "no client is before all others");
    }

    #[test]
    fn nobody_saves_up_for_later() {
        let (mut queue, mut clients) = queue(&[(7, 0); 4]);
        for id in [0, 1].map(RequestId) {
            assert_eq!(queue.next(|_| true), Some(id));
            queue.start(id);
            queue.charge(7, 1000);
        }
        // A newcomer is served as often as the other from now on.
        for id in [4, 5].map(RequestId) {
            queue.submit(id, Admission { client: 8, ..Admission::default() });
            clients.insert(id, 8);
        }
        assert_eq!(order(&mut queue, &clients), [2, 4, 3, 5]);
    }

    #[test]
    fn who_was_preempted_is_first() {
        let (mut queue, _) = queue(&[(7, -5), (8, 0)]);
        queue.start(RequestId(1));
        queue.wait(RequestId(1), Admission { client: 8, was_preempted: true, ..Admission::default() });
        assert_eq!(queue.next(|_| true), Some(RequestId(1)));
    }

    #[test]
    fn clients_without_requests_are_forgotten() {
        let (mut queue, clients) = queue(&[(7, 0), (8, 0)]);
        clients.iter().for_each(|(&id, &client)| queue.end(id, client));
        assert!(queue.clients.is_empty() && queue.waiting.is_empty());
    }
}
