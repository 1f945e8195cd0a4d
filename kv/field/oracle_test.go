package field

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// oracleParse is Parse built on encoding/json's tokens, without a bound on the
// number of values. If two things are wrong with a body, it may report the
// other one.
func oracleParse(data []byte) (Object, error) {
	if !utf8.Valid(data) {
		return nil, Malformed("The body is not valid UTF-8.")
	}
	if oracleHalf(data) {
		return nil, Malformed("The body holds half of a UTF-16 surrogate pair, which is not text.")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := oracleValue(d, 0)
	if err != nil {
		return nil, oracleMalformed(data, err)
	}
	o, ok := v.(Object)
	if !ok {
		return nil, Malformed("The body must be a JSON object.")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, Malformed("The body goes on after the JSON object.")
	}
	return o, nil
}

func oracleMalformed(data []byte, err error) error {
	var m Malformed
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &m):
		return m
	case errors.As(err, &syntax):
		return Malformed("The body is not valid JSON: " + unexpected(data, syntax.Offset) + ".")
	default: // the input ended early
		return Malformed("The body is not valid JSON: it ends too early.")
	}
}

func oracleValue(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if depth == MaxDepth {
		return nil, Malformed("The body is nested deeper than " + strconv.Itoa(MaxDepth) + " levels.")
	}
	if open == '[' {
		list := []any{}
		for d.More() {
			v, err := oracleValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	o := Object{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok {
			return nil, Malformed("The body is not valid JSON: a member's name must be a string.")
		}
		if _, twice := o[name]; twice {
			// a long name is cut: it goes into the answer
			return nil, Malformed(fmt.Sprintf("The body names %.64q twice.", name))
		}
		o[name], err = oracleValue(d, depth+1)
		if err != nil {
			return nil, err
		}
	}
	_, err = d.Token()
	return o, err
}

var escapes = regexp.MustCompile(`(?s)\\(?:u[0-9a-fA-F]{4}|.)`)

// oracleHalf reports an escape of half a surrogate pair without its other half.
func oracleHalf(data []byte) bool {
	open := -1 // where the escape of a first half ends
	for _, at := range escapes.FindAllIndex(data, -1) {
		// Other escapes are cut to nothing here, and 0.
		unit, _ := strconv.ParseUint(string(data[at[0]+2:at[1]]), 16, 16)
		second := unit>>10 == 0xdc00>>10
		if second != (open == at[0]) || open >= 0 && open != at[0] {
			return true
		}
		open = -1
		if unit>>10 == 0xd800>>10 {
			open = at[1]
		}
	}
	return open >= 0
}

// oracleLoad is Load built on oracleParse. Unlike Load, it also reads skipped
// members.
func oracleLoad(s *Set, stored []byte) error {
	in, err := oracleParse(stored)
	if err != nil {
		return err
	}
	for i := range s.fields {
		f := &s.fields[i]
		v, there := in[f.Name]
		switch {
		case !there:
		case v == nil:
			f.binding.clear()
		default:
			set := f.binding.set
			if b, ok := f.binding.(formed); ok { // stored text obeys its rule
				set = b.load
			}
			if err := set(v); err != nil {
				return fmt.Errorf("%s %w", f.Name, err)
			}
		}
	}
	return nil
}
