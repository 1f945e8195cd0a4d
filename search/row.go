package search

import (
	"slices"

	"kist/kv"
	"kist/kv/record"

	index "github.com/blevesearch/bleve_index_api"
)

// row is a document of the index with its terms already counted, so that the library does not analyse it. It implements
// [index.Document].
type row struct {
	id     string
	fields []index.Field
	volume int // bytes of text
}

func (r *row) ID() string                                 { return r.id }
func (r *row) Size() int                                  { return r.volume }
func (r *row) VisitComposite(index.CompositeFieldVisitor) {}
func (r *row) HasComposite() bool                         { return false }
func (r *row) NumPlainTextBytes() uint64                  { return uint64(r.volume) }
func (r *row) StoredFieldsBytes() uint64                  { return 0 }
func (r *row) Indexed() bool                              { return true }

func (r *row) VisitFields(visit index.FieldVisitor) {
	for _, f := range r.fields {
		visit(f)
	}
}

// AddIDField adds the id, by which the library finds the document.
func (r *row) AddIDField() {
	f := &column{name: "_id", options: index.IndexField | index.StoreField, value: []byte(r.id)}
	f.terms = index.TokenFrequencies{r.id: new(index.TokenFreq)}
	f.terms[r.id].SetFrequency(1)
	r.fields = append(r.fields, f)
}

// column is a field of a row. It implements [index.Field].
type column struct {
	name    string
	options index.FieldIndexingOptions
	value   []byte // stored value
	terms   index.TokenFrequencies
}

func (c *column) Name() string                                     { return c.name }
func (c *column) Value() []byte                                    { return c.value }
func (c *column) ArrayPositions() []uint64                         { return nil }
func (c *column) EncodedFieldType() byte                           { return 't' }
func (c *column) Analyze()                                         {}
func (c *column) Options() index.FieldIndexingOptions              { return c.options }
func (c *column) AnalyzedLength() int                              { return 1 } // only for the library's scores
func (c *column) AnalyzedTokenFrequencies() index.TokenFrequencies { return c.terms }
func (c *column) NumPlainTextBytes() uint64                        { return 0 }

// words adds terms without positions. Each row has each field: merging segments that have different fields takes much
// longer.
func (r *row) words(name string, terms ...string) {
	all := make([]index.TokenFreq, len(terms))
	c := &column{
		name: name, options: index.IndexField | index.SkipFreqNorm, terms: make(index.TokenFrequencies, len(terms)),
	}
	for i, t := range terms {
		c.terms[t] = &all[i]
	}
	r.fields = append(r.fields, c)
}

// text adds the terms of a line with their positions.
func (r *row) text(name string, l line) {
	c := &column{
		name: name, options: index.IndexField | index.IncludeTermVectors, terms: make(index.TokenFrequencies, len(l)),
	}
	all := make([]index.TokenFreq, 0, len(l))
	before := make([]int, len(l)) // the place before of the same word, plus 1
	for i, term := range l {
		if term == "" {
			continue
		}
		t := c.terms[term]
		if t == nil {
			all = append(all, index.TokenFreq{})
			t = &all[len(all)-1]
			c.terms[term] = t
		}
		before[i] = t.Frequency()
		t.SetFrequency(i + 1)
	}

	var places []uint32
	for i := range all {
		places = places[:0]
		for at := all[i].Frequency(); at > 0; at = before[at-1] {
			places = append(places, uint32(at-1))
		}
		slices.Reverse(places)
		freq, ok := pack(places)
		if !ok {
			freq = len(places)
			list := make([]index.TokenLocation, freq)
			for j, at := range places {
				list[j].Position = int(at) + 1
				all[i].Locations = append(all[i].Locations, &list[j])
			}
		}
		all[i].SetFrequency(freq)
	}
	r.fields = append(r.fields, c)
}

// row makes the document of a record; nil if the record does not exist, and for attached files: a search finds the
// texts that show them.
func (x *Index) row(c *kv.Change) *row {
	r := c.Record
	if r == nil || r.Attached {
		return nil
	}
	text, err := proseOf(r, x.content)
	if err != nil {
		x.o.Log.Error("cannot index a record", "error", err)
		return nil
	}
	d := &row{id: docID(c.Kind, c.ID), fields: make([]index.Field, 0, 11), volume: len(text.title)}
	title, rest := text.lines()
	for _, t := range text.texts {
		d.volume += len(t)
	}

	d.words(ownerField, string(r.Owner[:]))
	d.words(kindField, string(r.Kind.Code))
	tags := make([]string, 0, len(r.Tags)+1)
	for _, t := range r.Tags {
		tags = append(tags, string(t[:]))
	}
	if r.Folder != (record.ID{}) {
		tags = append(tags, string(r.Folder[:]))
	}
	d.words(tagField, tags...)
	var flags []string
	if r.Public {
		flags = append(flags, string(isPublic))
	}
	if r.Favorite {
		flags = append(flags, string(isFavorite))
	}
	d.words(flagField, flags...)
	d.text(titleField, title)
	d.text(textField, rest)
	d.text(slugField, lineOf(r.Slug))
	return d
}
