package store_test

import (
	"testing"

	"github.com/galley-ml/galley/internal/elastic/store"
	"github.com/galley-ml/galley/internal/elastic/store/storetest"
)

func TestMemory(t *testing.T) { storetest.Run(t, store.NewMemory()) }
