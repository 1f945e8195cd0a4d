package people_test

import (
	"fmt"
	"testing"

	"kist/kv/people"

	"github.com/matryer/is"
)

func TestScopes(t *testing.T) {
	all := []people.Scope{people.ScopeRead, people.ScopeWrite, people.ScopeUpload, people.ScopeAll, people.ScopeAdmin}
	for _, row := range []struct {
		has  []people.Scope
		want []bool
	}{
		{nil, []bool{false, false, false, false, false}},
		{[]people.Scope{people.ScopeRead}, []bool{true, false, false, false, false}},
		{[]people.Scope{people.ScopeWrite}, []bool{false, true, true, false, false}},
		{[]people.Scope{people.ScopeUpload}, []bool{false, false, true, false, false}},
		{[]people.Scope{people.ScopeRead, people.ScopeUpload}, []bool{true, false, true, false, false}},
		{[]people.Scope{people.ScopeAll}, []bool{true, true, true, true, false}},
		{[]people.Scope{people.ScopeAdmin}, []bool{true, true, true, true, true}},
	} {
		t.Run(fmt.Sprint(row.has), func(t *testing.T) {
			is := is.New(t)
			for i, s := range all {
				is.Equal((&people.Key{Scopes: row.has}).Allows(s), row.want[i])
			}
		})
	}
	is := is.New(t)
	for _, s := range all {
		got, err := people.CleanScope(string(s))
		is.NoErr(err)
		is.Equal(got, string(s))
	}
	for _, s := range []string{"", "ALL", "root"} {
		_, err := people.CleanScope(s)
		is.True(err != nil)
	}
}
