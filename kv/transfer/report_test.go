package transfer

import (
	"strings"
	"testing"

	"github.com/matryer/is"
)

// A report is bounded and counts the rest.
func TestRemark(t *testing.T) {
	is := is.New(t)
	var m Moved
	for range MaxRemarks + 2 {
		m.Remark("line 1", strings.Repeat("é", 2*maxRemark), "It is too long.", true)
	}
	m.Remark("line 2", "b", "Its icon is left out.", false)
	is.Equal(len(m.Remarks), MaxRemarks-reservedRemarks)
	is.Equal(m.More, reservedRemarks+3)
	is.Equal(m.Refused, MaxRemarks+2) // all are counted
	for range reservedRemarks + 1 {   // remarks about the whole source have reserved rows
		m.RemarkWhole("column \"x\"", "This is not imported.")
	}
	is.Equal(len(m.Remarks), MaxRemarks)
	is.Equal(m.More, reservedRemarks+4)
	is.Equal(m.Remarks[0], Remark{"line 1", strings.Repeat("é", maxRemark) + "…", true, "It is too long."})
}
