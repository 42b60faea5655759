use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::Room;

#[test]
fn never_more_waits_than_fits_and_everybody_gets_in() {
    let (room, inside) = (Room::new(10), AtomicU64::new(0));
    thread::scope(|scope| {
        for bytes in [1, 3, 7, 10, 25] {
            let (room, inside) = (&room, &inside);
            scope.spawn(move || {
                for _ in 0..200 {
                    room.enter(bytes);
                    let counted = bytes.min(10);
                    assert!(inside.fetch_add(counted, Ordering::SeqCst) + counted <= 10);
                    thread::yield_now();
                    inside.fetch_sub(counted, Ordering::SeqCst);
                    room.leave(bytes);
                }
            });
        }
    });
    room.enter(10);
}

#[test]
fn an_open_room_lets_in_who_waits() {
    let room = Room::new(4);
    room.enter(4);
    thread::scope(|scope| {
        scope.spawn(|| room.enter(4));
        room.open();
    });
}
