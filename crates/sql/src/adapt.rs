//! Columns as a query names them, of files as they are.
//!
//! A column missing in a file is null, and one of another type is cast: the engine does both. That leaves text made of
//! bytes: `path` is text in SQL and bytes in the files, which also have its text as `path_text`, except the older ones.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};
use pagelab_recording::tables::{ColType, TableDef, text_of};

use crate::catalogue::external;

/// The type of `host`, `variant` and of text columns: a number per row and each text once per batch.
pub(crate) fn text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Makes adapters for the files of a table.
#[derive(Debug)]
pub(crate) struct Columns(pub(crate) &'static TableDef);

impl PhysicalExprAdapterFactory for Columns {
    fn create(&self, logical: SchemaRef, physical: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let others = DefaultPhysicalExprAdapterFactory.create(logical, physical.clone())?;
        Ok(Arc::new(ColumnsOfFile { table: self.0, physical, others }))
    }
}

/// The columns of one file.
#[derive(Debug)]
struct ColumnsOfFile {
    table: &'static TableDef,
    physical: SchemaRef,
    others: Arc<dyn PhysicalExprAdapter>,
}

impl ColumnsOfFile {
    /// What stands for the text `name`, if it is made of bytes: the file's text, else one made of the file's bytes.
    fn text(&self, name: &str) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(column) = self.table.column(name) else { return Ok(None) };
        let (bytes, text) = match column.text_of {
            Some(bytes) => (bytes, Some(name)),
            None if column.ty == ColType::Bytes => {
                let text = self.table.columns.iter().find(|text| text.text_of == Some(name));
                (name, text.map(|text| text.name))
            }
            None => return Ok(None),
        };
        let place = |name: &str| self.physical.index_of(name).ok().map(|at| Arc::new(Column::new(name, at)));
        if let Some(text) = text.and_then(place)
            && text.data_type(&self.physical)? == text_type()
        {
            return Ok(Some(text));
        }
        let Some(bytes) = place(bytes) else { return Ok(None) };
        let function = Arc::new(ScalarUDF::from(TextOf::default()));
        let options = Arc::new(ConfigOptions::default());
        let call = ScalarFunctionExpr::try_new(function, vec![bytes], &self.physical, options)?;
        Ok(Some(Arc::new(call)))
    }
}

impl PhysicalExprAdapter for ColumnsOfFile {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let rewrite = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let text = self.text(column.name())?;
            Ok(Transformed::yes(match text {
                Some(text) => text,
                None => self.others.rewrite(expr)?,
            }))
        };
        expr.transform(rewrite).data()
    }
}

/// [`text_of`] as a function of the engine.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextOf {
    signature: Signature,
}

impl Default for TextOf {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TextOf {
    fn name(&self) -> &'static str {
        "text_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(text_type())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays: Vec<ArrayRef> = ColumnarValue::values_to_arrays(&arguments.args)?;
        let bytes = arrays.first().ok_or_else(|| {
            datafusion::error::DataFusionError::Internal("text_of needs a column of bytes".to_owned())
        })?;
        Ok(ColumnarValue::Array(text_of(bytes).map_err(external)?))
    }
}
