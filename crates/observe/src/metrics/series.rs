//! Series: a name and an instance, given a number once, with the value that was last handed out.
//!
//! The kernel's files keep their order from one reading to the next, so each source walks its own list of series in
//! step with the text: the usual cost of a value is one comparison of its key with the expected one. Only a line that
//! has moved, come or gone costs a look-up.

use std::collections::HashMap;
use std::sync::Arc;

use pagelab_vocab::metrics::{MetricKind, metric};

use super::{Facts, Row, SeriesId};

/// Most series of one source: on hosts where interfaces come and go by the thousand the list of names would otherwise
/// grow for as long as the recording runs.
pub(super) const MAX_SERIES: usize = 16_384;

struct Series {
    name: Arc<str>,
    instance: Option<Arc<str>>,
    /// The key as it stands in the text.
    field: Box<[u8]>,
    raw_instance: Box<[u8]>,
    /// Last value handed out.
    last: f64,
    /// What is added to the values of a counter: see [`SourceSeries::go_on`].
    offset: f64,
    /// The pass that last saw it.
    pass: u64,
    /// False once its end has been handed out.
    live: bool,
}

/// All series of a sampler.
#[derive(Default)]
pub(super) struct Store {
    series: Vec<Series>,
    names: HashMap<Box<str>, Arc<str>>,
    pass: u64,
}

impl Store {
    pub(super) fn len(&self) -> usize {
        self.series.len()
    }

    fn intern(&mut self, text: String) -> Arc<str> {
        let text = text.into_boxed_str();
        if let Some(known) = self.names.get(&text) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = Arc::from(&*text);
        self.names.insert(text, Arc::clone(&shared));
        shared
    }
}

/// The series of one source, in the order of its text.
#[derive(Default)]
pub(super) struct SourceSeries {
    index: HashMap<Box<[u8]>, u32>,
    order: Vec<u32>,
    seen: Vec<u32>,
    key: Vec<u8>,
    composed: Vec<u8>,
    live: usize,
    goes_on: bool,
}

impl SourceSeries {
    /// The next pass is over another file: counters go on from the values that they have, levels take those of the file.
    pub(super) fn go_on(&mut self) {
        self.goes_on = true;
    }
}

/// Where a parser puts the values of one reading.
pub(super) struct Collector<'a> {
    pub(super) facts: &'a Facts,
    prefix: &'static str,
    store: &'a mut Store,
    own: &'a mut SourceSeries,
    sink: &'a mut dyn FnMut(Row<'_>),
    all: bool,
    cursor: usize,
    moved: bool,
    /// Rows handed to the sink.
    pub(super) rows: usize,
    /// Values read.
    pub(super) values: usize,
    /// The first thing in the text that could not be understood.
    pub(super) trouble: Option<String>,
}

impl<'a> Collector<'a> {
    /// Begins a pass over one source. With `all`, values that have not changed are handed out too.
    pub(super) fn begin(
        facts: &'a Facts,
        prefix: &'static str,
        store: &'a mut Store,
        own: &'a mut SourceSeries,
        sink: &'a mut dyn FnMut(Row<'_>),
        all: bool,
    ) -> Self {
        store.pass += 1;
        own.seen.clear();
        Self { facts, prefix, store, own, sink, all, cursor: 0, moved: false, rows: 0, values: 0, trouble: None }
    }

    /// A value without an instance.
    pub(super) fn put(&mut self, field: &[u8], value: f64) {
        self.put_full(field, "", b"", value);
    }

    /// A value of `instance`.
    pub(super) fn put_of(&mut self, field: &[u8], instance: &[u8], value: f64) {
        self.put_full(field, "", instance, value);
    }

    /// A value whose instance is the concatenation of `parts`.
    pub(super) fn put_composed(&mut self, field: &[u8], parts: &[&[u8]], value: f64) {
        let mut composed = std::mem::take(&mut self.own.composed);
        composed.clear();
        for part in parts {
            composed.extend_from_slice(part);
        }
        self.put_full(field, "", &composed, value);
        self.own.composed = composed;
    }

    /// A value whose name is the prefix, the field in plain characters, and `suffix`.
    pub(super) fn put_full(&mut self, field: &[u8], suffix: &str, instance: &[u8], value: f64) {
        let Some(id) = self.locate(field, suffix, instance) else { return };
        let Some(series) = self.store.series.get_mut(id as usize) else { return };
        if series.pass == self.store.pass {
            let text = String::from_utf8_lossy(if instance.is_empty() { field } else { instance });
            self.trouble.get_or_insert_with(|| format!("{text:?} stands there twice; the first is kept"));
            return;
        }
        series.pass = self.store.pass;
        self.own.seen.push(id);
        self.values += 1;
        if self.own.goes_on && series.live && metric(&series.name).is_some_and(|info| info.kind == MetricKind::Counter)
        {
            series.offset = series.last - value;
        }
        let value = value + series.offset;
        // Bits, so that a NaN would not count as changed for ever.
        let changed = !series.live || series.last.to_bits() != value.to_bits();
        if !series.live {
            series.live = true;
            self.own.live += 1;
        }
        series.last = value;
        if changed || self.all {
            self.rows += 1;
            let (name, instance) = (&series.name, series.instance.as_ref());
            (self.sink)(Row { id: SeriesId(id), name, instance, value: Some(value), changed });
        }
    }

    /// Notes that a line could not be understood. The first one is kept.
    pub(super) fn not_understood(&mut self, line: &[u8]) {
        self.trouble.get_or_insert_with(|| {
            let start = line.get(..120).unwrap_or(line);
            format!("line not understood: {:?}", String::from_utf8_lossy(start))
        });
    }

    /// The number of a series: the expected one, one found by its key, or a new one.
    fn locate(&mut self, field: &[u8], suffix: &str, instance: &[u8]) -> Option<u32> {
        if let Some(&id) = self.own.order.get(self.cursor) {
            let expected = self.store.series.get(id as usize);
            if expected.is_some_and(|s| &*s.field == field && &*s.raw_instance == instance) {
                self.cursor += 1;
                return Some(id);
            }
        }
        self.moved = true;
        self.own.key.clear();
        self.own.key.extend_from_slice(field);
        self.own.key.push(0);
        self.own.key.extend_from_slice(instance);
        if let Some(&id) = self.own.index.get(self.own.key.as_slice()) {
            if let Some(at) = self.own.order.iter().position(|o| *o == id) {
                self.cursor = at + 1;
            }
            return Some(id);
        }
        self.add(field, suffix, instance)
    }

    fn add(&mut self, field: &[u8], suffix: &str, instance: &[u8]) -> Option<u32> {
        if self.own.index.len() >= MAX_SERIES {
            self.trouble.get_or_insert_with(|| format!("more than {MAX_SERIES} series; later ones are left out"));
            return None;
        }
        let id = u32::try_from(self.store.series.len()).ok()?;
        let name = self.store.intern(format!("{}{}{suffix}", self.prefix, plain(field)));
        let shown = (!instance.is_empty()).then(|| String::from_utf8_lossy(instance).into_owned());
        let shown = shown.map(|text| self.store.intern(text));
        self.store.series.push(Series {
            name,
            instance: shown,
            field: field.into(),
            raw_instance: instance.into(),
            last: 0.0,
            offset: 0.0,
            pass: 0,
            live: false,
        });
        self.own.index.insert(self.own.key.as_slice().into(), id);
        Some(id)
    }

    /// Ends the pass: series that were not seen get one last row, without a value.
    pub(super) fn finish(mut self) -> Pass {
        if self.moved {
            self.reorder();
        }
        if self.own.seen.len() != self.own.live {
            self.end_unseen();
        }
        self.own.goes_on = false;
        Pass { rows: self.rows, values: self.values, trouble: self.trouble }
    }

    /// The order of this pass is the one to expect of the next; series that were not seen wait behind it.
    fn reorder(&mut self) {
        let (series, pass) = (&self.store.series, self.store.pass);
        let own = &mut *self.own;
        let unseen = own.order.iter().filter(|id| series.get(**id as usize).is_some_and(|s| s.pass != pass));
        let mut order: Vec<u32> = own.seen.clone();
        order.extend(unseen);
        own.order = order;
    }

    fn end_unseen(&mut self) {
        for &id in &self.own.order {
            let Some(series) = self.store.series.get_mut(id as usize) else { continue };
            if series.live && series.pass != self.store.pass {
                series.live = false;
                self.own.live -= 1;
                self.rows += 1;
                let (name, instance) = (&series.name, series.instance.as_ref());
                (self.sink)(Row { id: SeriesId(id), name, instance, value: None, changed: true });
            }
        }
    }
}

/// The result of a pass.
pub(super) struct Pass {
    pub(super) rows: usize,
    pub(super) values: usize,
    pub(super) trouble: Option<String>,
}

/// A kernel field as part of a name: lower case, brackets and other signs as underscores (`Active(anon)` becomes
/// `active_anon`).
fn plain(field: &[u8]) -> String {
    field
        .iter()
        .filter(|b| **b != b')')
        .map(|b| match b.to_ascii_lowercase() {
            c @ (b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_') => char::from(c),
            _ => '_',
        })
        .collect()
}
