package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// documents are the texts that every archive and package has.
func (r *release) documents() ([]file, error) {
	var files []file
	for _, name := range []string{"LICENSE", "README.md"} {
		data, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, data})
	}
	return files, nil
}

// archives packs each program with its documents: as zip for Windows, as tar.gz for the others.
func (r *release) archives() error {
	for _, t := range r.targets {
		files, err := r.documents()
		if err != nil {
			return err
		}
		program, err := os.ReadFile(r.programs[t])
		if err != nil {
			return err
		}
		name := fmt.Sprintf("kist-%s-%s-%s", r.version, t.os, t.arch)
		files = append(
			files,
			file{"kist.1", 0o644, r.printed["kist.1"]},
			file{"completions/kist.bash", 0o644, r.printed["kist.bash"]},
			file{"completions/_kist", 0o644, r.printed["_kist"]},
			file{"completions/kist.fish", 0o644, r.printed["kist.fish"]},
			file{"kist.service", 0o644, r.printed["kist.service"]},
		)

		if t.os == "windows" {
			data, err := zipped(append(files, file{"kist.exe", 0o755, program}), name+"/", r.date)
			if err != nil {
				return err
			}
			err = r.write(name+".zip", data)
			if err != nil {
				return err
			}
			continue
		}
		data, err := tarred(append(files, file{"kist", 0o755, program}), name+"/", r.date)
		if err != nil {
			return err
		}
		data, err = gzipped(data)
		if err != nil {
			return err
		}
		err = r.write(name+".tar.gz", data)
		if err != nil {
			return err
		}
	}
	return nil
}

// tarred packs files below a folder, in their order.
func tarred(files []file, below string, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		head := &tar.Header{
			Typeflag: tar.TypeReg, Name: below + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: at,
		}
		err := w.WriteHeader(head)
		if err != nil {
			return nil, err
		}
		_, err = w.Write(f.data)
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func gzipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	if err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// zipped packs files below a folder, in their order.
func zipped(files []file, below string, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		head := &zip.FileHeader{Name: below + f.name, Method: zip.Deflate, Modified: at}
		head.SetMode(f.mode)
		to, err := w.CreateHeader(head)
		if err != nil {
			return nil, err
		}
		_, err = to.Write(f.data)
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// readTree reads the files below a folder, sorted by their paths.
func readTree(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, at)
		files = append(files, file{filepath.ToSlash(name), 0o644, data})
		return err
	})
	return files, err
}
