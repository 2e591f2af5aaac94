//! Checks with a counting allocator that events which spawn nothing allocate nothing.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{Field, Schema};
use fairstream_core::{
    Engine, EventBatch, Position, Selection, Subscription, Time, VerdictBatch, VerdictBatcher,
};
use fairstream_engine::{CompiledEngine, Specification};

/// The system's allocator, with a count of the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system's allocator with the caller's arguments, and its result is returned
// unchanged, so this allocator keeps the contract that the system's keeps. Counting neither allocates nor unwinds: the
// thread-local has a constant initialiser and no destructor, and `try_with` does not panic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: `System.alloc` requires a layout of non-zero size, which the caller of this function guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `System.dealloc` requires a pointer from `System.alloc` with the same layout. The caller guarantees that
        // the pointer comes from `alloc` above with this layout, and all those pointers come from `System.alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Rows of `id`, `gender` and `accepted`, a second apart.
fn batch(spec: &Specification, from: u64, rows: &[(Option<u64>, Option<&str>, Option<u64>)]) -> EventBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<UInt64Array>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<UInt64Array>()),
    ];
    let field =
        |wanted: &fairstream_core::WantedColumn| Field::new(&wanted.name, wanted.data_type.clone(), true);
    let schema = Arc::new(Schema::new(spec.wanted().iter().map(field).collect::<Vec<_>>()));
    let times: Vec<i64> = (0..rows.len() as i64).map(|row| (from as i64 + row) * 1_000_000_000).collect();
    let numbers: Vec<u64> = (from..from + rows.len() as u64).collect();
    EventBatch::new(RecordBatch::try_new(schema, columns).unwrap(), times, numbers, Position::default())
}

#[test]
fn events_that_spawn_nothing_allocate_nothing() {
    for (name, compile_after) in [("hiring", 0), ("hiring", 5), ("hiring_lookup", 0), ("hiring_lookup", 5)] {
        let path = format!("{}/../../specs/rtlola/{name}.lola", env!("CARGO_MANIFEST_DIR"));
        let spec = Specification::parse(name, &std::fs::read_to_string(path).unwrap()).unwrap();
        let mut engine =
            CompiledEngine::new(&spec, Time(0)).unwrap().compile_after(compile_after).without_precompiling();
        let ignore = |_: VerdictBatch| Ok(());
        let mut out = VerdictBatcher::new(engine.streams(), 1 << 20, ignore);
        engine.prepare(&Subscription::new(Selection::Triggers)).unwrap();
        let genders = ["F", "M"];
        let applied: Vec<_> = (0..3000).map(|id| (Some(id), Some(genders[id as usize % 2]), None)).collect();
        engine.feed(&batch(&spec, 0, &applied), &mut out).unwrap();
        // Every third applicant is accepted, which raises no trigger.
        let accepted: Vec<_> = (0..1000).map(|number| (None, None, Some(number * 3))).collect();
        let (few, many) = accepted.split_at(10);
        let mut from = 3000;
        let mut allocations = |rows: &[_]| {
            let batch = batch(&spec, from, rows);
            from += rows.len() as u64;
            let before = ALLOCATIONS.get();
            engine.feed(&batch, &mut out).unwrap();
            ALLOCATIONS.get() - before
        };
        // A batch allocates a constant number of times, however many rows it has.
        let (first, few, many) = (allocations(few), allocations(&many[..10]), allocations(&many[10..]));
        assert!(few <= first && few <= 4, "{name}: {first}, then {few}");
        assert_eq!(many, few, "{name}: 980 rows allocate more than 10");
    }
}
