package mesh

// MustParse returns Parse of a text that is part of a program: it panics where that is wrong.
func MustParse(text string) *Mesh {
	m, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return m
}
