package transfer

// BatchRows is how many entries an import stores at once.
const BatchRows = batchRows
