//! Calls of an object with a gate enter in the order sent, whatever they carry.

use egret::rmi::Remoting;

use crate::grid::pool_with;

#[egret::remote]
trait Log {
    #[oneway]
    fn put(&mut self, number: u64, bytes: &[u8]);
    fn add(&mut self, number: u64, bytes: &[u8]) -> u64;
    fn all(&self) -> Vec<u64>;
}

#[derive(Default)]
struct Numbers(Vec<u64>);

#[egret::remote]
impl Log for Numbers {
    fn put(&mut self, number: u64, _bytes: &[u8]) {
        self.0.push(number);
    }

    fn add(&mut self, number: u64, bytes: &[u8]) -> u64 {
        self.0.push(number);
        bytes.len() as u64
    }

    fn all(&self) -> Vec<u64> {
        self.0.clone()
    }
}

#[test]
fn a_call_without_data_does_not_pass_one_with_data() {
    for fabric in ["shm", "tcp"] {
        let (_registry, nodes) = pool_with(2, fabric, |config| config);
        let log = nodes[0].export(Numbers::default()).unwrap();
        let stub: LogStub = nodes[1].stub(log.object());
        let large = vec![7; 300_000];
        let mut next = 0;
        for _ in 0..20 {
            // One that nobody waits for, and one that is waited for at once.
            stub.put(next, &large).unwrap();
            assert_eq!(stub.add(next + 1, &[]), Ok(0), "{fabric}");
            next += 2;
            // Many at once, of any size.
            let sizes = [0, 300_000, 0, 3_000, 5_000, 0, 300_000, 0];
            let calls: Vec<_> = (next..)
                .zip(sizes)
                .map(|(number, size)| stub.begin().add(number, vec![7; size]))
                .collect();
            next += sizes.len() as u64;
            for (call, size) in calls.into_iter().zip(sizes) {
                assert_eq!(call.wait(), Ok(size as u64), "{fabric}");
            }
        }
        assert_eq!(stub.all().unwrap(), (0..next).collect::<Vec<_>>(), "{fabric}");
    }
}
