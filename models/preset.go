package models

// Tiny returns a small llama that trains on a laptop in minutes.
func Tiny(vocab int) Config {
	return Config{
		Family: "llama", Vocab: vocab, Hidden: 128, Intermediate: 352, Layers: 4, Heads: 4, KVHeads: 2,
		Positions: 1024,
		Tied:      true,
	}
}

// Small returns a llama of the size of the smallest GPT-2.
func Small(vocab int) Config {
	return Config{
		Family: "llama", Vocab: vocab, Hidden: 768, Intermediate: 2048, Layers: 12, Heads: 12, KVHeads: 4,
		Positions: 2048,
		Tied:      true,
	}
}
