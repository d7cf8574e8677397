//! What is encoded here is decoded by the Parquet library, which knows nothing of how it was made.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;

use super::{Effort, PartEncoder, footer};

fn decode(bytes: Vec<u8>) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

fn encode(batches: &[RecordBatch], groups: usize, effort: Effort) -> Vec<u8> {
    let mut encoder = PartEncoder::new(batches[0].schema(), Vec::new(), effort).unwrap();
    let mut bytes = Vec::new();
    for group in batches.chunks(batches.len().div_ceil(groups)) {
        bytes.extend(encoder.row_group(group).unwrap());
    }
    bytes.extend(encoder.finish().unwrap());
    bytes
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, a)| Field::new(*name, a.data_type().clone(), a.is_nullable())).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|c| c.1).collect()).unwrap()
}

/// Shapes of real columns: constant, few values, steady steps, anything.
fn words() -> impl Strategy<Value = Vec<u64>> {
    let len = 0..600_usize;
    prop_oneof![
        (any::<u64>(), len.clone()).prop_map(|(v, n)| vec![v; n]),
        prop::collection::vec(0..5_u64, len.clone()),
        prop::collection::vec(prop_oneof![Just(0_u64), Just(u64::MAX), Just(1 << 63)], len.clone()),
        (any::<u64>(), prop::collection::vec(0..5000_u64, len.clone())).prop_map(|(start, steps)| {
            steps
                .iter()
                .scan(start, |at, s| {
                    *at = at.wrapping_add(*s);
                    Some(*at)
                })
                .collect()
        }),
        prop::collection::vec(any::<u64>(), len),
    ]
}

fn shape(values: &[u64], nulls: &[bool]) -> RecordBatch {
    let valid = |i: usize| nulls.get(i % nulls.len().max(1)).is_none_or(|n| !n);
    let opt: Vec<Option<u64>> = values.iter().enumerate().map(|(i, v)| valid(i).then_some(*v)).collect();
    batch(vec![
        ("ts", Arc::new(Int64Array::from_iter_values(values.iter().map(|v| *v as i64)))),
        ("a", Arc::new(UInt64Array::from(opt.clone()))),
        ("b", Arc::new(opt.iter().map(|v| v.map(|v| v as u32)).collect::<UInt32Array>())),
        ("c", Arc::new(Int32Array::from_iter_values(values.iter().map(|v| *v as i32)))),
        ("d", Arc::new(opt.iter().map(|v| v.map(f64::from_bits)).collect::<Float64Array>())),
        ("e", Arc::new(UInt64Array::from_iter_values(values.iter().copied()))),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_library_reads_back_what_was_encoded(
        values in words(),
        more in words(),
        nulls in prop::collection::vec(any::<bool>(), 0..40),
    ) {
        let a = shape(&values, &nulls);
        // The second batch has the nullability of the first, as the writer's schema has for all.
        let b = RecordBatch::try_new(a.schema(), shape(&more, &nulls).columns().to_vec());
        let batches: Vec<RecordBatch> = std::iter::once(a).chain(b.ok()).collect();
        let wanted = concat_batches(&batches[0].schema(), &batches).unwrap();
        for effort in [Effort::Live, Effort::Compact(3)] {
            for groups in [1, 2] {
                let found = decode(encode(&batches, groups, effort));
                // Bits, not floats: a NaN must keep its payload.
                let bits = |b: &RecordBatch| format!("{:?}", b.columns().iter().map(arrow::array::Array::to_data).collect::<Vec<_>>());
                prop_assert_eq!(found.num_rows(), wanted.num_rows());
                for (f, w) in found.columns().iter().zip(wanted.columns()) {
                    prop_assert!(same(f, w), "{:?}\n{}", effort, bits(&found));
                }
            }
        }
    }
}

/// Equality by bits; Arrow compares floats as numbers.
fn same(a: &ArrayRef, b: &ArrayRef) -> bool {
    use arrow::array::AsArray;
    use arrow::datatypes::Float64Type;
    if let (Some(a), Some(b)) = (a.as_primitive_opt::<Float64Type>(), b.as_primitive_opt::<Float64Type>()) {
        return a.iter().map(|v| v.map(f64::to_bits)).eq(b.iter().map(|v| v.map(f64::to_bits)));
    }
    a == b
}

#[test]
fn pages_beyond_one_are_read_back() {
    let n = 3 * super::chunk::PAGE_ROWS as i64 + 17;
    let rows = batch(vec![
        ("ts", Arc::new(Int64Array::from_iter_values((0..n).map(|i| i * 1500 + i % 7)))),
        ("a", Arc::new(UInt64Array::from_iter_values((0..n as u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15))))),
        ("b", Arc::new((0..n).map(|i| (i % 5 != 0).then_some((i / 512) as u32)).collect::<UInt32Array>())),
    ]);
    for effort in [Effort::Live, Effort::Compact(3)] {
        assert_eq!(decode(encode(std::slice::from_ref(&rows), 1, effort)).columns(), rows.columns());
    }
}

#[test]
fn the_trailer_knows_every_chunk() {
    let rows = shape(&[1, 2, 3], &[false, true]);
    let bytes = encode(&[rows.clone(), rows], 2, Effort::Live);
    let len = u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap()) as usize;
    let end = &bytes[bytes.len() - 8 - len..bytes.len() - 8];
    let Ok(footer::Trailer::Checksums(list)) = footer::unseal(end) else { panic!("no trailer") };
    assert_eq!(list.len(), 2 * 6);
    for at in 0..end.len() - 4 {
        let mut damaged = end.to_vec();
        damaged[at] ^= 0x10;
        assert!(footer::unseal(&damaged).is_err(), "a flip at {at} of {} went unseen", end.len());
    }
}

/// A column that the rows lack is there, null, in every row group, whatever its type; so is one that is null throughout.
#[test]
fn columns_that_the_rows_lack_are_null_and_cost_next_to_nothing() {
    let types = [
        DataType::Int64,
        DataType::UInt64,
        DataType::Int32,
        DataType::UInt32,
        DataType::Float64,
        DataType::Boolean,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Binary)),
        DataType::List(Arc::new(Field::new("item", DataType::UInt64, true))),
    ];
    let n = 200_000;
    let rows = batch(vec![("ts", Arc::new(Int64Array::from_iter_values(0..n)))]);
    let fields = types.iter().enumerate().map(|(i, ty)| Field::new(format!("c{i}"), ty.clone(), true));
    let fields: Vec<Field> = [Field::new("ts", DataType::Int64, false)].into_iter().chain(fields).collect();
    for effort in [Effort::Live, Effort::Compact(3)] {
        let mut encoder = PartEncoder::new(Arc::new(Schema::new(fields.clone())), Vec::new(), effort).unwrap();
        let mut bytes = Vec::new();
        for _ in 0..2 {
            bytes.extend(encoder.row_group(std::slice::from_ref(&rows)).unwrap());
        }
        bytes.extend(encoder.finish().unwrap());
        let alone = encode(&[rows.clone(), rows.clone()], 2, effort).len();
        let each = (bytes.len() - alone) / types.len() / 2;
        assert!(each < 150, "{effort:?}: {each} bytes for each chunk");
        let found = decode(bytes);
        assert_eq!((found.num_rows(), found.num_columns()), (2 * n as usize, 1 + types.len()));
        for column in &found.columns()[1..] {
            assert_eq!(column.null_count(), column.len(), "{effort:?}: {}", column.data_type());
        }
    }
}

#[test]
fn constant_columns_cost_nothing() {
    let n = 100_000;
    let constant = |name| -> (&str, ArrayRef) { (name, Arc::new(UInt64Array::from_value(u64::MAX, n))) };
    let one = encode(&[batch(vec![constant("a")])], 1, Effort::Live).len();
    let two = encode(&[batch(vec![constant("a"), constant("b")])], 1, Effort::Live).len();
    assert!(two - one < 200, "{}", two - one);
}
