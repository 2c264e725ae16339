package xla

import (
	"path/filepath"
	"testing"
)

// TestPlacesAreFull: no plugin is looked for in the working directory, whatever the environment lacks.
func TestPlacesAreFull(t *testing.T) {
	for _, home := range []string{"", ".", "home/me", "/home/me"} {
		for _, env := range []string{"", "venv", "/opt/venv"} {
			t.Setenv("HOME", home)
			t.Setenv("VIRTUAL_ENV", env)
			for _, p := range places() {
				if !filepath.IsAbs(p) {
					t.Errorf("HOME=%q VIRTUAL_ENV=%q: %s", home, env, p)
				}
			}
		}
	}
}
