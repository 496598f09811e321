package main

import (
	"context"
	"fmt"
)

// executions measures executions of one step per second.
func executions() []bench {
	var list []bench
	for _, at := range []int{1, 16, 64, 100, 256} {
		l := load{steps: 1, at: at}
		list = append(list, bench{
			name:    fmt.Sprintf("executions-1x%d", at),
			figures: []figure{{unit: "executions/s"}},
			peers:   []string{"river", "river-defaults", "dbos", "raw", "raw-history", "raw-history-2"},
			turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
				rate, err := h.throughput(ctx, who, l)
				return []float64{rate}, err
			},
		})
	}
	return list
}
