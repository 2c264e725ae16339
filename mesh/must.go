package mesh

// MustParse is like Parse but panics on an error. It is for texts that are part of a program.
func MustParse(text string) *Mesh {
	m, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return m
}
