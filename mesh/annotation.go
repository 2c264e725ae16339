package mesh

import (
	"fmt"
	"path"
	"strings"
)

// Annotation requests a sharding for the parameters whose names match a pattern.
type Annotation struct {
	// Pattern is as in path.Match: * matches any text, [0-3] one of four digits.
	Pattern  string
	Sharding Sharding
}

// String returns the annotation as ParseAnnotation reads it.
func (a Annotation) String() string { return a.Pattern + "=" + a.Sharding.String() }

// ParseAnnotation parses a text such as *.up_proj.weight=@[tp,_].
func ParseAnnotation(text string) (Annotation, error) {
	pattern, sharding, ok := strings.Cut(text, "=")
	if !ok {
		return Annotation{}, fmt.Errorf("annotation %q: want PATTERN=@[AXES,…]", text)
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return Annotation{}, fmt.Errorf("annotation %q: pattern: %w", text, err)
	}
	s, err := ParseSharding(sharding)
	if err != nil {
		return Annotation{}, fmt.Errorf("annotation %q: %w", text, err)
	}
	return Annotation{pattern, s}, nil
}

// Matches reports whether the pattern matches a parameter's name.
func (a Annotation) Matches(name string) bool {
	// Most names differ at their ends, and path.Match is slow to reject.
	if !strings.HasSuffix(name, a.Pattern[strings.LastIndexAny(a.Pattern, `*?]\`)+1:]) {
		return false
	}
	ok, err := path.Match(a.Pattern, name)
	return ok && err == nil
}
