//! Plots, as SVG.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

const WIDTH: u32 = 900;
const ROW: u32 = 24;

/// Bars on a logarithmic axis: one is as fast as the other.
pub fn ratios(path: &Path, bars: &[(String, f64)]) -> Result<()> {
    if bars.is_empty() {
        return Ok(());
    }
    let draw = || -> Result<(), Box<dyn std::error::Error>> {
        let height = ROW * bars.len() as u32 + 90;
        let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let least = bars.iter().map(|(_, ratio)| *ratio).fold(0.1, f64::min) * 0.8;
        let most = bars.iter().map(|(_, ratio)| *ratio).fold(10.0, f64::max) * 1.2;
        let rows = bars.len() as f64;
        let mut chart = ChartBuilder::on(&area)
            .caption("wasmkeep ÷ the other, same run (right of 1: faster)", ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(30)
            .y_label_area_size(320)
            .build_cartesian_2d((least..most).log_scale(), 0.0..rows)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .x_label_formatter(&|ratio| format!("{ratio:.1}"))
            .draw()?;
        for (row, (name, ratio)) in bars.iter().enumerate() {
            let y = rows - row as f64;
            let colour =
                if *ratio >= 1.0 { RGBColor(46, 125, 80) } else { RGBColor(150, 150, 150) };
            let (from, to) = (ratio.min(1.0), ratio.max(1.0));
            chart.draw_series([Rectangle::new(
                [(from, y - 0.85), (to, y - 0.15)],
                colour.filled(),
            )])?;
            let label = chart.backend_coord(&(least, y - 0.3));
            let style = ("sans-serif", 13).into_font();
            let text = format!("{name}: {ratio:.2}");
            area.draw(&Text::new(text, (14, label.1 - 7), style))?;
        }
        area.present()?;
        Ok(())
    };
    draw().map_err(|error| anyhow!("draw {}: {error}", path.display()))
}

/// A line for each series, over growing numbers, both axes logarithmic.
pub fn curves(
    path: &Path,
    title: &str,
    unit: &str,
    series: &[(String, Vec<(f64, f64)>)],
) -> Result<()> {
    let points = || series.iter().flat_map(|(_, points)| points.iter().copied());
    if points().next().is_none() {
        return Ok(());
    }
    let draw = || -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::new(path, (WIDTH, 420)).into_drawing_area();
        area.fill(&WHITE)?;
        let bounds = |values: &dyn Fn() -> Vec<f64>| {
            let values = values();
            let least = values.iter().copied().fold(f64::MAX, f64::min);
            let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
            (least * 0.7).max(1e-3)..most * 1.4
        };
        let x = bounds(&|| points().map(|(x, _)| x).collect());
        let y = bounds(&|| points().map(|(_, y)| y).collect());
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(70)
            .build_cartesian_2d(x.log_scale(), y.log_scale())?;
        chart.configure_mesh().y_desc(unit).light_line_style(WHITE).draw()?;
        for (number, (name, points)) in series.iter().enumerate() {
            let colour = Palette99::pick(number).to_rgba();
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
            let dots = points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(dots)?;
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
        Ok(())
    };
    draw().map_err(|error| anyhow!("draw {}: {error}", path.display()))
}
