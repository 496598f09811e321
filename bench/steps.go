package main

import (
	"context"
	"fmt"
)

// steps measures durable steps per second in pipelines of ten.
func steps() []bench {
	var list []bench
	for _, at := range []int{1, 16, 64, 256} {
		l := load{steps: 10, at: at}
		list = append(list, bench{
			name:    fmt.Sprintf("steps-10x%d", at),
			figures: []figure{{unit: "steps/s"}},
			peers:   []string{"dbos", "go-workflows", "raw", "raw-history", "raw-history-2"},
			turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
				rate, err := h.throughput(ctx, who, l)
				return []float64{rate * float64(l.steps)}, err
			},
		})
	}
	return list
}
