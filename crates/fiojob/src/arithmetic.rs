//! Arithmetic of the job language, by the grammar of fio's own parser (`exp/expression-parser.y`).
//!
//! From the loosest to the tightest: `+ -`, a unit, `* /`, `^`, `%`, a sign. So a unit belongs to the whole product in front of it:
//! `2*4k` and `8/2k` are `(2*4)k` and `(8/2)k`. Whole numbers stay whole (`3/2` is 1) unless one of them has a fraction.

/// What an expression comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Found {
    /// In the units that its numbers have.
    pub value: Value,
    /// Whether any number in it has one.
    pub has_unit: bool,
}

/// A number on the way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    /// Without a fraction.
    Whole(i128),
    /// With one.
    Fraction(f64),
}

impl Value {
    /// A whole number.
    pub(crate) fn of(number: u64) -> Self {
        Self::Whole(i128::from(number))
    }

    /// The number in 64 bits, without its fraction; `None` if it is negative or too large.
    pub(crate) fn whole(self) -> Option<u64> {
        match self {
            Self::Whole(number) => u64::try_from(number).ok(),
            // 2^64 is the first that does not fit; the comparison is false for what is no number.
            Self::Fraction(number) if (0.0..18_446_744_073_709_551_616.0).contains(&number) => Some(number as u64),
            Self::Fraction(_) => None,
        }
    }

    /// The product; beyond the range of whole numbers it is one with a fraction, which [`Self::whole`] finds too large.
    pub(crate) fn times(self, other: Self) -> Self {
        self.with(other, i128::checked_mul, |a, b| a * b)
    }

    fn real(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Fraction(number) => number,
        }
    }

    fn with(self, other: Self, whole: fn(i128, i128) -> Option<i128>, real: fn(f64, f64) -> f64) -> Self {
        let both = match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => whole(a, b),
            _ => None,
        };
        both.map_or_else(|| Self::Fraction(real(self.real(), other.real())), Self::Whole)
    }
}

/// What a unit multiplies by, if it is one.
type Units<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// Deepest nesting of parentheses and powers.
const MAX_DEPTH: u32 = 64;

/// The value of the expression `text`.
///
/// # Errors
/// The reason in words.
pub(crate) fn evaluate(text: &str, units: Units<'_>) -> Result<Found, String> {
    let mut expression = Expression { rest: text, units, depth: 0, has_unit: false };
    let value = expression.sum()?;
    match expression.rest.trim() {
        "" => Ok(Found { value, has_unit: expression.has_unit }),
        rest => Err(format!("cannot read '{rest}' in the expression '{text}'")),
    }
}

struct Expression<'a> {
    rest: &'a str,
    units: Units<'a>,
    depth: u32,
    has_unit: bool,
}

impl Expression<'_> {
    fn operator(&mut self, accepted: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let found = self.rest.chars().next().filter(|c| accepted.contains(c))?;
        self.rest = self.rest.get(found.len_utf8()..).unwrap_or("");
        Some(found)
    }

    /// What a unit that comes next multiplies by.
    fn unit(&mut self) -> Result<Option<Value>, String> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Ok(None);
        }
        let unit = (self.units)(word).ok_or_else(|| format!("unknown unit '{word}' in an expression"))?;
        self.rest = rest;
        self.has_unit = true;
        Ok(Some(Value::of(unit)))
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} nested parentheses"));
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    fn sum(&mut self) -> Result<Value, String> {
        let mut value = self.product()?;
        while let Some(operator) = self.operator(&['+', '-']) {
            let right = self.product()?;
            value = match operator {
                '+' => value.with(right, i128::checked_add, |a, b| a + b),
                _ => value.with(right, i128::checked_sub, |a, b| a - b),
            };
        }
        Ok(value)
    }

    /// Products with their units. Behind a unit every operator takes all that stands before it.
    fn product(&mut self) -> Result<Value, String> {
        let mut value = self.power()?;
        loop {
            if let Some(unit) = self.unit()? {
                value = value.times(unit);
                continue;
            }
            let Some(operator) = self.operator(&['*', '/', '^', '%']) else { return Ok(value) };
            value = match operator {
                '*' => value.times(self.power()?),
                '/' => divide(value, self.power()?)?,
                '^' => power(value, self.power()?)?,
                _ => remainder(value, self.signed()?)?,
            };
        }
    }

    fn power(&mut self) -> Result<Value, String> {
        let base = self.rest_of_division()?;
        if self.operator(&['^']).is_none() {
            return Ok(base);
        }
        let exponent = self.deeper(Self::power)?;
        power(base, exponent)
    }

    fn rest_of_division(&mut self) -> Result<Value, String> {
        let mut value = self.signed()?;
        while self.operator(&['%']).is_some() {
            value = remainder(value, self.signed()?)?;
        }
        Ok(value)
    }

    fn signed(&mut self) -> Result<Value, String> {
        if self.operator(&['-']).is_some() {
            let value = self.deeper(Self::signed)?;
            return Ok(Value::Whole(0).with(value, i128::checked_sub, |a, b| a - b));
        }
        if self.operator(&['(']).is_none() {
            return self.number();
        }
        let value = self.deeper(Self::sum)?;
        match self.operator(&[')']) {
            Some(_) => Ok(value),
            None => Err("a ')' is missing".to_owned()),
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        self.rest = self.rest.trim_start();
        if let Some(digits) = self.rest.strip_prefix("0x") {
            let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            let (digits, rest) = digits.split_at(end);
            self.rest = rest;
            return u64::from_str_radix(digits, 16)
                .map(Value::of)
                .map_err(|_| format!("'0x{digits}' is no number of 64 bits"));
        }
        let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        if digits.is_empty() {
            return Err(format!("expected a number, found '{}'", self.rest));
        }
        self.rest = rest;
        let value = if digits.contains('.') {
            digits.parse().ok().map(Value::Fraction)
        } else {
            digits.parse().ok().map(Value::of)
        };
        value.ok_or_else(|| format!("'{digits}' is no number of 64 bits"))
    }
}

fn divide(value: Value, by: Value) -> Result<Value, String> {
    if by.real() == 0.0 {
        return Err("an expression divides by 0".to_owned());
    }
    Ok(value.with(by, i128::checked_div, |a, b| a / b))
}

fn remainder(value: Value, by: Value) -> Result<Value, String> {
    match (value, by) {
        (_, Value::Whole(0)) => Err("an expression divides by 0".to_owned()),
        (Value::Whole(value), Value::Whole(by)) => Ok(Value::Whole(value.wrapping_rem(by))),
        _ => Err("% is for whole numbers".to_owned()),
    }
}

fn power(base: Value, exponent: Value) -> Result<Value, String> {
    if let (Value::Whole(base), Value::Whole(exponent)) = (base, exponent)
        && let Ok(exponent) = u32::try_from(exponent)
        && let Some(value) = base.checked_pow(exponent)
    {
        return Ok(Value::Whole(value));
    }
    let value = base.real().powf(exponent.real());
    if value.is_finite() { Ok(Value::Fraction(value)) } else { Err("an expression is beyond any number".to_owned()) }
}
