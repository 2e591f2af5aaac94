use arrow::array::*;
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::*;
use fairstream_core::*;
use fairstream_engine::*;
use std::sync::Arc;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let n: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let spec = Specification::parse(&path, &text).unwrap();
    // hiring: id,gender,accepted
    let (mut id, mut g, mut acc, mut t) = (vec![], vec![], vec![], vec![]);
    let mut x = 88172645463325252u64;
    let mut pend = vec![];
    let mut now = 0i64;
    for i in 0..n {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let key = i.wrapping_mul(0x9E3779B97F4A7C15);
        id.push(Some(key));
        g.push(Some(if x & 1 == 0 { "female" } else { "male" }));
        acc.push(None);
        now += 1_000_000_000;
        t.push(now);
        if x % 100 < 35 {
            pend.push(key);
        }
        if pend.len() > 50 {
            let k = pend.swap_remove((x >> 20) as usize % pend.len());
            id.push(None);
            g.push(None);
            acc.push(Some(k));
            now += 1_000_000_000;
            t.push(now);
        }
    }
    let names: Vec<_> = spec.wanted().iter().map(|w| w.name.clone()).collect();
    println!("{names:?} {} events", t.len());
    let mut batches = vec![];
    let m = 8192;
    for c in 0..t.len().div_ceil(m) {
        let r = c * m..((c + 1) * m).min(t.len());
        let cols: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(id[r.clone()].to_vec())),
            Arc::new(StringArray::from(g[r.clone()].to_vec())),
            Arc::new(UInt64Array::from(acc[r.clone()].to_vec())),
        ];
        let schema = Arc::new(Schema::new(
            spec.wanted().iter().map(|w| Field::new(&w.name, w.data_type.clone(), true)).collect::<Vec<_>>(),
        ));
        let rows = RecordBatch::try_new(schema, cols).unwrap();
        let rn: Vec<u64> = (r.start as u64..r.end as u64).collect();
        batches.push(EventBatch::new(
            rows,
            ScalarBuffer::from(t[r.clone()].to_vec()),
            rn,
            Position::default(),
        ));
    }
    for _ in 0..3 {
        let mut e = CompiledEngine::new(&spec, Time(0)).unwrap();
        let mut out = Verdicts::new(e.streams(), Selection::Triggers, 8192, |_b: VerdictBatch| Ok(()));
        let s = std::time::Instant::now();
        for b in &batches {
            e.feed(b, &mut out).unwrap();
        }
        println!("{:.1} ns/event", s.elapsed().as_nanos() as f64 / t.len() as f64);
    }
}
