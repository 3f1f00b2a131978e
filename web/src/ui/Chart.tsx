/** A chart with its table. The colours are the page's own, read anew when the theme changes. */
import { useEffect, useRef, type ReactNode } from "react";
import uPlot from "uplot";

import { useValue } from "../api/store";
import { cell } from "../time/format";
import { common } from "../text";
import { painted, zone } from "./prefs";

/** Whether ticks stand less than a minute apart, so that minutes alone would all read the same. */
const within = (ticks: number[]) => ticks.length > 1 && (ticks[1] ?? 0) - (ticks[0] ?? 0) < 60;

/** The shortest time that an axis covers: over less its ticks would be fractions of a second. */
const SPAN_S = 10;

/** A value with none on either side would be on no line: it gets a point. */
const alone: uPlot.Series.Points.Filter = (u, series) => {
  const values = Array.from<number | null | undefined>(u.data[series] ?? []);
  return values.flatMap((v, n) => (v != null && values[n - 1] == null && values[n + 1] == null ? [n] : []));
};

export type Line = { label: string; color: string; values: (number | null)[]; dash?: number[] };

type Props = {
  label: string;
  /** Seconds since 1970, ascending. */
  times: number[];
  lines: Line[];
  height?: number;
  bars?: boolean;
  format: (value: number) => string;
  /** A level to compare with. */
  goal?: { value: number; label: string };
  onPick?: (index: number) => void;
  table: ReactNode;
};

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function Chart({ label, times, lines, height = 160, bars, format, goal, onPick, table }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const z = useValue(zone);
  const look = useValue(painted);
  const shape = lines.map((l) => l.label + l.color).join("|");
  const data = [times, ...lines.map((l) => l.values)] as uPlot.AlignedData;
  const latest = useRef({ data, onPick, format });
  latest.current = { data, onPick, format };

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const axis = { stroke: color("--text2"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const chart = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height,
        tzDate: (ts) => (z === "utc" ? uPlot.tzDate(new Date(ts * 1000), "Etc/UTC") : new Date(ts * 1000)),
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { size: 6 } },
        scales: { x: { range: (_u, min, max) => [Math.min(min, max - SPAN_S), max] }, y: { range: (_u, _min, max) => [0, Math.max(max * 1.1, goal ? goal.value * 1.2 : 0, 0.1)] } },
        axes: [
          { ...axis, values: (_u, ticks) => ticks.map((t) => cell(new Date(t * 1000).toISOString(), z, t * 1000).slice(0, within(ticks) ? 8 : 5)), space: 72 },
          { ...axis, size: 56, values: (_u, ticks) => ticks.map((t) => latest.current.format(t)) },
        ],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.label,
            stroke: color(line.color),
            width: 2,
            dash: line.dash,
            fill: bars ? `${color(line.color)}` : undefined,
            paths: bars ? uPlot.paths.bars?.({ size: [0.8, 40] }) : undefined,
            points: { show: true, size: 6, fill: color(line.color), filter: alone },
          })),
        ],
        hooks: {
          draw: goal
            ? [
                (u) => {
                  const y = u.valToPos(goal.value, "y", true);
                  u.ctx.save();
                  u.ctx.strokeStyle = color("--edge");
                  u.ctx.setLineDash([6, 4]);
                  u.ctx.beginPath();
                  u.ctx.moveTo(u.bbox.left, y);
                  u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
                  u.ctx.stroke();
                  u.ctx.restore();
                },
              ]
            : [],
        },
      },
      latest.current.data,
      element,
    );
    plot.current = chart;
    const click = () => {
      if (chart.cursor.idx !== undefined && chart.cursor.idx !== null) latest.current.onPick?.(chart.cursor.idx);
    };
    chart.over.addEventListener("click", click);
    const observer = new ResizeObserver(() => chart.setSize({ width: Math.max(200, element.clientWidth), height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
      plot.current = undefined;
    };
    // `lines` enters by its shape; its values enter below.
  }, [shape, height, z, look, bars, goal?.value]);

  useEffect(() => {
    plot.current?.setData(latest.current.data);
  }, [times, lines]);

  return (
    <figure className="chart">
      <div ref={box} role="img" aria-label={label} className={onPick ? "plot plot-pick" : "plot"} />
      <figcaption>
        <ul className="legend">
          {lines.map((line) => (
            <li key={line.label}>
              <span className="swatch" data-color={line.color} data-dashed={line.dash ? "" : undefined} />
              {line.label}
            </li>
          ))}
          {goal ? (
            <li>
              <span className="swatch" data-color="--edge" data-dashed="" />
              {goal.label}
            </li>
          ) : null}
        </ul>
        <details>
          <summary>{common.asTable}</summary>
          <div className="scroll-x" tabIndex={0} role="group" aria-label={common.tableOf(label)}>
            {table}
          </div>
        </details>
      </figcaption>
    </figure>
  );
}
