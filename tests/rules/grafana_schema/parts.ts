// What Grafana says a dashboard and its panels are, under one root for the generator of the JSON schema.
import type { Dashboard } from "./node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen";
import type * as bargauge from "./node_modules/@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/types.gen";
import type * as stat from "./node_modules/@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen";
import type * as table from "./node_modules/@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen";
import type * as timeseries from "./node_modules/@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen";

export interface Parts {
  dashboard: Dashboard;
  options: {
    bargauge: bargauge.Options;
    stat: stat.Options;
    table: table.Options;
    timeseries: timeseries.Options;
  };
  fields: {
    table: table.FieldConfig;
    timeseries: timeseries.FieldConfig;
  };
}
