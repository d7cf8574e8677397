//! Changes of recordings: of bytes, of values, of columns, of documents, with the checksums made right or left wrong.

use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt32Array, UInt64Array, new_null_array,
};
use arrow::compute::{cast, concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema};
use pagelab_recording::Manifest;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

const I64: [i64; 10] = [0, -1, 1, i64::MAX, i64::MIN, 1 << 62, -(1 << 62), 1 << 31, 1_000_000_000_000_000_000, 1 << 53];
const U64: [u64; 9] = [0, 1, u64::MAX, 1 << 63, 1 << 62, 1 << 53, 1 << 48, 1 << 32, 4096];
const I32: [i32; 5] = [0, -1, 1, i32::MAX, i32::MIN];
const U32: [u32; 6] = [0, 1, 2, 65_535, 1 << 31, u32::MAX];
const F64: [f64; 8] = [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, -1e308, 5e-324];

/// Parts of a recording.
fn parts(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(parts(&path));
        } else if path.extension().is_some_and(|ending| ending == "parquet") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Changes the recording in `dir` in one to three ways; says how.
pub(crate) fn change(dir: &Path, rng: &mut ChaCha8Rng) -> String {
    let mut said = Vec::new();
    let honest = rng.random_range(0..10) < 7;
    for _ in 0..*[1, 1, 1, 2, 3].choose(rng).unwrap_or(&1) {
        // The library panics over files that were changed before.
        let changed = catch_unwind(AssertUnwindSafe(|| one(dir, rng)));
        said.push(changed.unwrap_or_else(|_| "it could not be changed".to_owned()));
    }
    if honest {
        list_anew(dir);
        said.push("listed anew".to_owned());
    }
    said.join("; ")
}

fn one(dir: &Path, rng: &mut ChaCha8Rng) -> String {
    let all = parts(dir);
    let Some(part) = all.choose(rng).cloned() else { return "there are no parts".to_owned() };
    let name = part.strip_prefix(dir).unwrap_or(&part).display().to_string();
    match rng.random_range(0..20) {
        0..=2 => document(&dir.join("manifest.json"), rng),
        3..=11 => format!("{name}: {}", values(&part, rng).unwrap_or_else(|| "as it was".to_owned())),
        12..=13 => format!("{name}: {}", bytes(&part, rng)),
        14..=15 => format!("{name}: {}", right_bytes(&part, rng)),
        16 => {
            let other = all.choose(rng).cloned().unwrap_or_else(|| part.clone());
            let target = part.with_file_name(format!("part-{:04}.parquet", [0, 1, 9999].choose(rng).unwrap_or(&1)));
            let _ = fs::copy(&other, &target);
            format!("{} as {}", other.display(), target.display())
        }
        17 => {
            let _ = fs::remove_file(&part);
            format!("{name} removed")
        }
        18 => {
            let _ = fs::write(&part, b"");
            format!("{name} emptied")
        }
        _ => {
            let count: u64 = *[0, 1, 2, u64::from(u32::MAX), u64::MAX].choose(rng).unwrap_or(&0);
            let table = name.split('/').next().unwrap_or_default();
            let text = serde_json::json!({"tables": [{"table": table, "parts": count}]}).to_string();
            let _ = fs::write(dir.join("compaction.json"), &text);
            text
        }
    }
}

/// Lists the parts as they are now, so that what was changed is taken for what was written.
fn list_anew(dir: &Path) {
    let Ok(mut manifest) = Manifest::load(dir) else { return };
    let text = fs::read(dir.join("manifest.json")).unwrap_or_default();
    let was: Value = serde_json::from_slice(&text).unwrap_or_default();
    manifest.complete = was["complete"] == Value::Bool(true);
    manifest.incomplete_reason = None;
    for part in manifest.parts.iter_mut().flatten() {
        let bytes = fs::read(dir.join(&part.table).join(&part.name)).unwrap_or_default();
        part.bytes = bytes.len() as u64;
        let end = bytes.len().checked_sub(20).and_then(|at| bytes.get(at..));
        part.checksum = match end {
            Some([a, b, c, d, _, _, _, _, b'P', b'G', b'L', b'1', ..]) => {
                format!("{:08x}", u32::from_le_bytes([*a, *b, *c, *d]))
            }
            _ => String::new(),
        };
    }
    let _ = manifest.rewrite(dir);
}

fn bytes(part: &Path, rng: &mut ChaCha8Rng) -> String {
    let mut bytes = fs::read(part).unwrap_or_default();
    if bytes.len() < 16 {
        return "too short".to_owned();
    }
    let at = rng.random_range(0..bytes.len());
    let said = match rng.random_range(0..5) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            let end = (at + 4096).min(bytes.len());
            bytes[at..end].fill(255);
            format!("overwritten from {at}")
        }
        2 => {
            bytes.insert(at, 0);
            format!("one more byte at {at}")
        }
        3 => {
            let len = bytes.len();
            let word: [u8; 4] = bytes[len - 8..len - 4].try_into().unwrap_or_default();
            let footer = (u32::from_le_bytes(word) as usize).min(len - 8);
            let at = rng.random_range(len - 8 - footer..len);
            bytes[at] = rng.random_range(0..=255);
            format!("footer at {at}")
        }
        _ => {
            bytes[at] ^= 1 << rng.random_range(0..8);
            format!("a bit at {at}")
        }
    };
    let _ = fs::write(part, bytes);
    said
}

/// Flips bytes of column chunks or of the footer, and makes the checksums right again.
fn right_bytes(part: &Path, rng: &mut ChaCha8Rng) -> String {
    let mut bytes = fs::read(part).unwrap_or_default();
    let len = bytes.len();
    let word = |bytes: &[u8], at: usize| {
        let word: Option<[u8; 4]> = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        u32::from_le_bytes(word.unwrap_or_default()) as usize
    };
    if len < 32 || bytes.get(len - 12..len - 8) != Some(b"PGL1") {
        return "not ours".to_owned();
    }
    let (footer_len, count) = (word(&bytes, len - 8), word(&bytes, len - 16));
    let places = (len - 8).checked_sub(footer_len).zip((len - 20).checked_sub(count.saturating_mul(4)));
    let Some((footer_at, list_at)) = places.filter(|(footer_at, list_at)| footer_at < list_at) else {
        return "changed before".to_owned();
    };
    let Ok(metadata) = ParquetMetaDataReader::decode_metadata(&bytes[footer_at..]) else {
        return "no footer".to_owned();
    };
    let chunks: Vec<(usize, usize)> = metadata
        .row_groups()
        .iter()
        .flat_map(|group| group.columns().iter().map(ColumnChunkMetaData::byte_range))
        .map(|(at, len)| (at as usize, len as usize))
        .filter(|(at, len)| at.checked_add(*len).is_some_and(|end| end <= footer_at))
        .collect();
    if chunks.is_empty() {
        return "no chunks".to_owned();
    }
    let mut said = String::new();
    if rng.random_range(0..4) == 0 {
        for _ in 0..rng.random_range(1..3) {
            let at = rng.random_range(footer_at..list_at);
            bytes[at] = rng.random_range(0..=255);
            _ = write!(said, "footer {at} ");
        }
    } else {
        for _ in 0..rng.random_range(1..4) {
            let (at, len) = chunks[rng.random_range(0..chunks.len())];
            // Heads of pages are at the begin.
            let within = if rng.random() { len.min(24) } else { len };
            let at = at + rng.random_range(0..within.max(1));
            bytes[at] = rng.random_range(0..=255);
            _ = write!(said, "byte {at} ");
        }
    }
    for (number, (at, len)) in chunks.iter().enumerate().take(count) {
        let sum = crc32fast::hash(&bytes[*at..at + len]);
        bytes[list_at + 4 * number..list_at + 4 * number + 4].copy_from_slice(&sum.to_le_bytes());
    }
    let mut hash = crc32fast::Hasher::new();
    hash.update(&bytes[footer_at..len - 20]);
    hash.update(&bytes[len - 16..len - 12]);
    bytes[len - 20..len - 16].copy_from_slice(&hash.finalize().to_le_bytes());
    let _ = fs::write(part, bytes);
    format!("{said}with right checksums")
}

/// Writes the rows anew with other values. None if it has none.
fn values(part: &Path, rng: &mut ChaCha8Rng) -> Option<String> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(part).ok()?).ok()?;
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> = reader.build().ok()?.collect::<Result<_, _>>().ok()?;
    let mut rows = concat_batches(&schema, &batches).ok().filter(|rows| rows.num_rows() > 0)?;
    let mut said = String::new();
    let column = rng.random_range(0..rows.num_columns());
    let name = rows.schema().field(column).name().clone();
    match rng.random_range(0..12) {
        0..=6 => {
            for _ in 0..*[1, 1, 2, 4].choose(rng)? {
                let column = rng.random_range(0..rows.num_columns());
                let name = rows.schema().field(column).name().clone();
                let (array, value) = extreme(rows.column(column), rng)?;
                _ = write!(said, "{name} {value} ");
                rows = with_column(&rows, column, array)?;
            }
        }
        7 => {
            let nulls = new_null_array(rows.column(column).data_type(), rows.num_rows());
            rows = with_column(&rows, column, nulls)?;
            said = format!("{name} null");
        }
        8 => {
            let types = [
                DataType::Utf8,
                DataType::Float64,
                DataType::Int8,
                DataType::Boolean,
                DataType::Date32,
                DataType::UInt64,
            ];
            let ty = types.choose(rng)?;
            let array = cast(rows.column(column), ty).unwrap_or_else(|_| new_null_array(ty, rows.num_rows()));
            rows = with_column(&rows, column, array)?;
            said = format!("{name} as {ty}");
        }
        9 => {
            rows.remove_column(column);
            said = format!("without {name}");
        }
        10 => {
            let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
            order.shuffle(rng);
            let order = UInt32Array::from(order);
            let columns =
                rows.columns().iter().map(|array| take(array, &order, None).ok()).collect::<Option<Vec<_>>>()?;
            rows = RecordBatch::try_new(rows.schema(), columns).ok()?;
            "shuffled".clone_into(&mut said);
        }
        _ => {
            let times = *[2, 10, 100].choose(rng)?;
            let many = vec![rows.clone(); times.min(200_000 / rows.num_rows().max(1)).max(1)];
            rows = concat_batches(&rows.schema(), &many).ok()?;
            said = format!("{times} times");
        }
    }
    write(part, &rows, rng)?;
    Some(said)
}

fn with_column(rows: &RecordBatch, column: usize, array: ArrayRef) -> Option<RecordBatch> {
    let mut fields: Vec<Field> = rows.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    fields[column] = Field::new(fields[column].name(), array.data_type().clone(), true);
    let mut columns = rows.columns().to_vec();
    columns[column] = array;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).ok()
}

/// The column with a share of its values replaced by such as no host has.
fn extreme(array: &ArrayRef, rng: &mut ChaCha8Rng) -> Option<(ArrayRef, String)> {
    let share = *[1.0, 0.5, 0.02].choose(rng)?;
    let plain = match array.data_type() {
        DataType::Dictionary(_, value) => cast(array, value).ok()?,
        _ => array.clone(),
    };
    let rows = plain.len();
    let is_new: Vec<bool> = (0..rows).map(|row| row == 0 || rng.random_bool(share)).collect();
    macro_rules! numbers {
        ($array:ident, $list:ident) => {{
            let old = plain.as_any().downcast_ref::<$array>()?;
            let picked = [*$list.choose(rng)?, *$list.choose(rng)?];
            let value = |row: usize| {
                if is_new[row] { Some(picked[row % 2]) } else { old.is_valid(row).then(|| old.value(row)) }
            };
            (Arc::new((0..rows).map(value).collect::<$array>()) as ArrayRef, format!("{picked:?}"))
        }};
    }
    Some(match plain.data_type() {
        DataType::Int64 => numbers!(Int64Array, I64),
        DataType::UInt64 => numbers!(UInt64Array, U64),
        DataType::Int32 => numbers!(Int32Array, I32),
        DataType::UInt32 => numbers!(UInt32Array, U32),
        DataType::Float64 => numbers!(Float64Array, F64),
        DataType::Boolean => (Arc::new(BooleanArray::from(is_new)), "others".to_owned()),
        DataType::Utf8 => {
            let long = "A".repeat(1 << 12);
            let texts =
                ["", "\u{1b}]0;P\u{7}", "a\nb", "\u{202e}x", long.as_str(), "<script>", "\0", "exit", "idle", "off"];
            let text = (*texts.choose(rng)?).to_owned();
            let old = plain.as_any().downcast_ref::<StringArray>()?;
            let value =
                |row: usize| if is_new[row] { Some(text.as_str()) } else { old.is_valid(row).then(|| old.value(row)) };
            (
                Arc::new((0..rows).map(value).collect::<StringArray>()),
                format!("{:?}", text.chars().take(12).collect::<String>()),
            )
        }
        DataType::Binary => {
            let old = plain.as_any().downcast_ref::<BinaryArray>()?;
            let value = |row: usize| {
                if is_new[row] { Some(&b"/\xff\x1b[2J"[..]) } else { old.is_valid(row).then(|| old.value(row)) }
            };
            (Arc::new((0..rows).map(value).collect::<BinaryArray>()), "bytes".to_owned())
        }
        // Lists: those of other rows.
        _ => {
            let order: UInt32Array = (0..rows as u32).map(|_| Some(rng.random_range(0..rows as u32))).collect();
            (take(&plain, &order, None).ok()?, "of other rows".to_owned())
        }
    })
}

fn write(part: &Path, rows: &RecordBatch, rng: &mut ChaCha8Rng) -> Option<()> {
    let packed =
        *[Compression::ZSTD(ZstdLevel::default()), Compression::UNCOMPRESSED, Compression::LZ4_RAW].choose(rng)?;
    let statistics = if rng.random_range(0..5) == 0 { EnabledStatistics::None } else { EnabledStatistics::Chunk };
    // Few rows in a group only where there are not many: each is a part of the footer.
    let group =
        if rows.num_rows() <= 2000 { *[7, 1000, 1 << 20].choose(rng)? } else { *[1000, 1 << 20].choose(rng)? };
    let properties = WriterProperties::builder()
        .set_compression(packed)
        .set_dictionary_enabled(rng.random())
        .set_statistics_enabled(statistics)
        .set_max_row_group_row_count(Some(group))
        .build();
    let mut writer = ArrowWriter::try_new(fs::File::create(part).ok()?, rows.schema(), Some(properties)).ok()?;
    // The library calls itself for each further group of a batch.
    for at in (0..rows.num_rows()).step_by(group) {
        writer.write(&rows.slice(at, group.min(rows.num_rows() - at))).ok()?;
    }
    writer.close().ok()?;
    Some(())
}

/// All values of a document, by their way from the top.
fn ways(value: &Value, way: &str, found: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(keys) => keys.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in below {
        let way = format!("{way}/{key}");
        ways(value, &way, found);
        found.push(way);
    }
}

fn document(path: &Path, rng: &mut ChaCha8Rng) -> String {
    let text = fs::read(path).unwrap_or_default();
    let Ok(mut value) = serde_json::from_slice::<Value>(&text) else { return "no document".to_owned() };
    let mut all = Vec::new();
    ways(&value, "", &mut all);
    let mut said = String::new();
    match rng.random_range(0..6) {
        0 => {
            let cut = rng.random_range(0..text.len());
            let _ = fs::write(path, &text[..cut]);
            return format!("manifest cut at {cut}");
        }
        1 => {
            let mut text = text;
            for _ in 0..3 {
                let at = rng.random_range(0..text.len());
                text[at] = rng.random_range(0..=255);
            }
            let _ = fs::write(path, text);
            return "bytes of the manifest".to_owned();
        }
        _ => {}
    }
    for _ in 0..*[1, 1, 2, 5, 20].choose(rng).unwrap_or(&1) {
        let Some(way) = all.choose(rng) else { break };
        let to = [
            Value::Null,
            true.into(),
            Value::Array(vec![]),
            serde_json::json!({}),
            (*I64.choose(rng).unwrap_or(&0)).into(),
            (*U64.choose(rng).unwrap_or(&0)).into(),
            1e308.into(),
            (-1.5).into(),
            "\u{1b}]0;P\u{7}".into(),
        ];
        if let (Some(at), Some(to)) = (value.pointer_mut(way), to.choose(rng)) {
            _ = write!(said, "{way} = {to} ");
            *at = to.clone();
        }
    }
    let _ = fs::write(path, value.to_string());
    format!("manifest: {said}")
}
