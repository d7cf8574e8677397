//! The words of pagelab: settings, metrics, units and causes, each declared once.
