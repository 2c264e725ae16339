package models

import "fmt"

func electraFamily() family {
	f := bertFamily()
	f.name, f.architecture, f.classifier = "electra", "ElectraForMaskedLM", "ElectraForSequenceClassification"
	f.tagger, f.answerer = "ElectraForTokenClassification", "ElectraForQuestionAnswering"
	f.base, f.read, f.write, f.check, f.build = "electra.", readELECTRA, writeELECTRA, checkELECTRA, buildELECTRA
	f.stored = storedNames{buffers: []string{".position_ids"}, heads: []string{"generator_lm_head.weight"}}
	return f
}

func readELECTRA(r *reader, f *family, c *Config) {
	readBERT(r, f, c)
	if width := r.count("embedding_size", 128); width != c.Hidden {
		c.TokenWidth = width
	}
}

func checkELECTRA(c Config) error {
	if c.TokenWidth < 0 || c.TokenWidth > maxSize {
		return fmt.Errorf("embedding_size: got %d, want 1 to %d", c.TokenWidth, maxSize)
	}
	return checkGPT2(c)
}

func writeELECTRA(c Config, f *family, m map[string]any) {
	writeBERT(c, f, m)
	m["embedding_size"] = c.tokenWidth()
}
