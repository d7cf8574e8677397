//! Division of integers gives an integer.
//!
//! The columns of addresses and sizes are unsigned, and literals are signed. The engine brings such a pair to a common
//! type, which is a decimal with fractions: `count(distinct addr/4096)` counted bytes in place of pages. Here a quotient
//! and a remainder of an unsigned and a signed integer are taken in the type of the left side; a value that this type
//! cannot hold (a negative divisor of an address) ends the query with its own words.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans `/` and `%` of integers.
#[derive(Debug)]
pub(crate) struct IntegerDivision;

impl ExprPlanner for IntegerDivision {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if !matches!(expr.op, BinaryOperator::Divide | BinaryOperator::Modulo) {
            return Ok(PlannerResult::Original(expr));
        }
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let wide = match (left.is_unsigned_integer(), right.is_unsigned_integer()) {
            (true, false) if right.is_signed_integer() => DataType::UInt64,
            (false, true) if left.is_signed_integer() => DataType::Int64,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let right = cast(expr.right, wide);
        Ok(PlannerResult::Original(RawBinaryExpr { right, ..expr }))
    }
}
