package search

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"kist/kv/datadir"
)

// proof is written at a clean stop. It says which store the index belongs to and which place it has
// reached, and proves that its files are intact. An index without a proof is not opened, because the
// library may panic or hang on a damaged one.
type proof struct {
	Mapping int              `json:"Mapping"`
	Store   string           `json:"Store"`
	Place   uint64           `json:"Place"`
	Root    uint32           `json:"Root"`  // CRC-32 of root.bolt, which lists the segments
	Files   map[string]int64 `json:"Files"` // sizes of all files
}

func (x *Index) proofFile() string { return filepath.Join(x.o.Dir, proofName) }

const (
	proofName = "proof.json"
	rootName  = "root.bolt"
)

// prove writes the proof of an index that was closed at a place.
func (x *Index) prove(at uint64) error {
	files, err := sizes(x.folder())
	if err != nil {
		return err
	}
	root, _, err := checksum(filepath.Join(x.folder(), rootName), 0)
	if err != nil {
		return err
	}
	text, err := json.Marshal(proof{
		Mapping: mappingVersion, Store: x.o.Store, Place: at, Root: root, Files: files,
	})
	if err != nil {
		return err
	}
	return datadir.WriteFile(x.o.Dir, proofName, text)
}

// mustRebuild decides whether the index is built from scratch: if asked is true, if Rebuild was called,
// or if no proof shows that the existing one is intact. Otherwise it returns the place that the existing
// one has reached.
func (x *Index) mustRebuild(asked bool, latest, trimmed uint64) (at uint64, rebuild bool) {
	select {
	case <-x.rebuildNow:
		return 0, true
	default:
	}
	if asked {
		return 0, true
	}
	at, err := x.proven(latest, trimmed)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		x.o.Log.Info("the search index is rebuilt", "because", err)
	}
	return at, err != nil
}

// proven reads the proof and checks it against the files. It returns the place that the index has
// reached. The error says why the index cannot be used, and is os.ErrNotExist if there is none.
func (x *Index) proven(latest, trimmed uint64) (at uint64, err error) {
	text, err := os.ReadFile(x.proofFile())
	if errors.Is(err, os.ErrNotExist) {
		if _, there := os.Stat(x.folder()); there == nil {
			return 0, errors.New("its last stop was not clean")
		}
	}
	if err != nil {
		return 0, err
	}

	var p proof
	if err := json.Unmarshal(text, &p); err != nil {
		return 0, fmt.Errorf("its proof cannot be read: %w", err)
	}
	switch {
	case p.Mapping != mappingVersion:
		return 0, fmt.Errorf("it has version %d but this program needs %d", p.Mapping, mappingVersion)
	case p.Store != x.o.Store:
		return 0, errors.New("it belongs to another store")
	case p.Place > latest:
		return 0, fmt.Errorf("it is at change %d but the store at %d", p.Place, latest)
	case p.Place < trimmed:
		return 0, fmt.Errorf("it is at change %d but removals up to %d are forgotten", p.Place, trimmed)
	}

	files, err := sizes(x.folder())
	if err != nil {
		return 0, err
	}
	for name, size := range p.Files {
		if got, ok := files[name]; !ok || got != size {
			return 0, fmt.Errorf("%w: %s has %d bytes but should have %d", errDamaged, name, got, size)
		}
		path := filepath.Join(x.folder(), name)
		if name == rootName {
			if sum, _, err := checksum(path, 0); err != nil || sum != p.Root {
				return 0, errors.Join(err, fmt.Errorf("%w: %s has changed", errDamaged, name))
			}
		}
		if strings.HasSuffix(name, ".zap") {
			if err := checkSegment(path); err != nil {
				return 0, err
			}
		}
	}
	return p.Place, nil
}

func sizes(folder string) (map[string]int64, error) {
	all, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	files := map[string]int64{}
	for _, e := range all {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		files[e.Name()] = info.Size()
	}
	return files, nil
}

// checksum is the CRC-32 (IEEE) of a file without its last bytes, which it returns as end.
func checksum(path string, last int64) (sum uint32, end []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	all := crc32.NewIEEE()
	rest := struct{ io.Reader }{io.LimitReader(f, info.Size()-last)}
	if _, err := io.CopyBuffer(all, rest, make([]byte, 64<<10)); err != nil {
		return 0, nil, err
	}
	end, err = io.ReadAll(io.LimitReader(f, last))
	return all.Sum32(), end, err
}

// checkSegment compares a segment with the checksum at its end.
func checkSegment(path string) error {
	sum, end, err := checksum(path, 4)
	if err != nil {
		return err
	}
	if len(end) != 4 || binary.BigEndian.Uint32(end) != sum {
		return fmt.Errorf("%w: %s has changed", errDamaged, filepath.Base(path))
	}
	return nil
}
