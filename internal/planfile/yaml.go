package planfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley/internal/strict"
	"github.com/goccy/go-yaml"
)

// head explains a file to who opens it.
const head = `# A plan of galley. Edit the strategy if you like; what it is for is fixed by the key.
# galley plan --compare FILE FILE says how two differ, galley simulate FILE draws its step, galley train --plan FILE runs it.
`

// YAML returns the file as text.
func (f *File) YAML() ([]byte, error) {
	text, err := yaml.MarshalWithOptions(f, yaml.Indent(2), yaml.UseLiteralStyleIfMultiline(true))
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return append([]byte(head), text...), nil
}

// Save writes the file; one that is there is replaced, at once or not at all.
func (f *File) Save(path string) error {
	text, err := f.YAML()
	if err != nil {
		return err
	}
	return save(path, text)
}

// save writes a file; one that is there is replaced, at once or not at all.
func save(path string, text []byte) error {
	// Not os.CreateTemp, whose files nobody else may read: that is up to the umask.
	temp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".galley-%016x", rand.Uint64()))
	t, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	defer os.Remove(t.Name())
	_, err = t.Write(text)
	if err = errors.Join(err, t.Close()); err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}

// Load reads a file and checks it.
func Load(path string) (*File, error) {
	text, err := strict.ReadFile(path, strict.Config)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	f, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", path, err)
	}
	return f, nil
}

// Parse reads the text of a file. Mistakes are named with line and column where they have one.
func Parse(text []byte) (*File, error) {
	f := &File{}
	if err := strict.YAML(text, f); err != nil {
		return nil, err
	}
	return f, f.check()
}
