package inbox

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

func TestDecide(t *testing.T) {
	is := is.New(t)
	for _, from := range States {
		for _, to := range []State{Approved, Rejected} {
			i := Item{State: from, Ref: [32]byte{1}}
			err := i.Decide(to, time.UnixMilli(5))
			if from != Pending {
				is.Equal(faultOf(err), record.Taken)
				is.Equal(i, Item{State: from, Ref: [32]byte{1}})
				continue
			}
			is.NoErr(err)
			is.Equal(i, Item{State: to, Decided: time.UnixMilli(5)})
		}
	}
}
