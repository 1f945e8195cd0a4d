package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser owns /data and runs the program. It is the one of kist install docker.
const imageUser = 65532

// imageName is before the version in the name that the image has where the archive is loaded: kist:1.2.3, as the files
// of kist install have it. Docker writes names without a registry in this way; Podman takes it too.
const imageName = "docker.io/library/kist:"

// imageConfig is the same for each platform. It agrees with what kist install docker prints.
var imageConfig = v1.Config{
	User:         fmt.Sprintf("%d:%d", imageUser, imageUser),
	Env:          []string{"KIST_DATA_DIR=/data", "KIST_LISTEN=:7080"},
	Volumes:      map[string]struct{}{"/data": {}},
	ExposedPorts: map[string]struct{}{"7080/tcp": {}},
	Entrypoint:   []string{"/kist"},
	Cmd:          []string{"serve"},
	Healthcheck: &v1.HealthConfig{
		Test: []string{"CMD", "/kist", "healthcheck"}, Interval: 30 * time.Second, Timeout: 10 * time.Second,
		StartPeriod: 10 * time.Minute,
	},
}

// platforms are the targets that have an image.
var platforms = map[target]v1.Platform{
	{"linux", "amd64"}: {OS: "linux", Architecture: "amd64"},
	{"linux", "arm64"}: {OS: "linux", Architecture: "arm64", Variant: "v8"},
	{"linux", "armv7"}: {OS: "linux", Architecture: "arm", Variant: "v7"},
}

// image packs the image for all its platforms as an OCI layout in one tar. Docker without the store of containerd
// reads manifest.json instead, which has one name for each platform.
func (r *release) image() error {
	ground, err := r.ground()
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var docker tarball.Manifest
	for _, t := range r.targets {
		platform, has := platforms[t]
		if !has {
			continue
		}
		image, err := r.platformImage(t, platform, ground)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &platform},
		})
		manifest, err := image.Manifest()
		if err != nil {
			return err
		}
		tag := "kist:" + r.version + "-" + t.arch
		entry := tarball.Descriptor{Config: blob(manifest.Config), RepoTags: []string{tag}}
		for _, layer := range manifest.Layers {
			entry.Layers = append(entry.Layers, blob(layer))
		}
		docker = append(docker, entry)
	}
	if docker == nil {
		return nil
	}

	dir := filepath.Join(r.scratch, "image")
	top := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{
			"org.opencontainers.image.ref.name": r.version,
			"io.containerd.image.name":          imageName + r.version,
		}},
	})
	_, err = layout.Write(dir, top)
	if err != nil {
		return err
	}
	text, err := json.Marshal(docker)
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o644)
	if err != nil {
		return err
	}
	files, err := readTree(dir)
	if err != nil {
		return err
	}
	data, err := tarred(files, "", r.date)
	if err != nil {
		return err
	}
	return r.write("kist-"+r.version+"-oci.tar", data)
}

// blob is where the layout keeps what a descriptor is about.
func blob(d v1.Descriptor) string { return "blobs/" + d.Digest.Algorithm + "/" + d.Digest.Hex }

// platformImage has two layers, so that an update sends the program alone.
func (r *release) platformImage(t target, platform v1.Platform, ground v1.Layer) (v1.Image, error) {
	program, err := os.ReadFile(r.programs[t])
	if err != nil {
		return nil, err
	}
	data, err := tarred([]file{{"kist", 0o755, program}}, "", r.date)
	if err != nil {
		return nil, err
	}
	top, err := layerOf(data)
	if err != nil {
		return nil, err
	}

	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
		Created: v1.Time{Time: r.date}, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	config := *imageConfig.DeepCopy()
	config.Labels = map[string]string{
		"org.opencontainers.image.title":       "kist",
		"org.opencontainers.image.description": description,
		"org.opencontainers.image.licenses":    "MIT",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.date.Format(time.RFC3339),
	}
	image, err = mutate.Config(image, config)
	if err != nil {
		return nil, err
	}
	history := func(what string) v1.History { return v1.History{Created: v1.Time{Time: r.date}, CreatedBy: what} }
	image, err = mutate.Append(
		image,
		mutate.Addendum{Layer: ground, History: history("root certificates and /data")},
		mutate.Addendum{Layer: top, History: history("kist " + r.version)},
	)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON), nil
}

// ground is the layer below the program: the root certificates that Mozilla trusts, and the folder for the data.
func (r *release) ground() (v1.Layer, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file of certificates cannot say that a root counts for some certificates only
		}
		err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		if err != nil {
			return nil, err
		}
	}

	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, head := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o700, Uid: imageUser, Gid: imageUser},
		{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "etc/ssl/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "etc/ssl/certs/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Size: int64(roots.Len())},
	} {
		head.ModTime = r.date
		err := w.WriteHeader(&head)
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(head.Name, "/") {
			_, err := w.Write(roots.Bytes())
			if err != nil {
				return nil, err
			}
		}
	}
	err := w.Close()
	if err != nil {
		return nil, err
	}
	return layerOf(b.Bytes())
}

func layerOf(data []byte) (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression),
		tarball.WithCompressedCaching)
}
