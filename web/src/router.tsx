/** Every page's address. */
import { createRootRoute, createRoute, createRouter, retainSearchParams } from "@tanstack/react-router";

import { Shell } from "./shell/Shell";
import { Broken, NotFound } from "./shell/NotFound";
import { page } from "./shell/pages";
import { parseSearch, stringifySearch, type Search } from "./ui/address";

const root = createRootRoute({
  component: Shell,
  notFoundComponent: NotFound,
  errorComponent: Broken,
  validateSearch: (search: Record<string, unknown>): Search => search as Search,
  // The namespace goes along from page to page.
  search: { middlewares: [retainSearchParams<Search>(["ns"])] },
});

const overview = createRoute({ getParentRoute: () => root, path: "/", component: page(() => import("./pages/overview"), "OverviewPage") });
const timers = createRoute({ getParentRoute: () => root, path: "/timers", component: page(() => import("./pages/timers"), "TimersPage") });
const register = createRoute({ getParentRoute: () => root, path: "/timers/new", component: page(() => import("./pages/register"), "RegisterPage") });
const timer = createRoute({ getParentRoute: () => root, path: "/timers/$id", component: page(() => import("./pages/timer"), "TimerPage") });
const byKey = createRoute({ getParentRoute: () => root, path: "/types/$type/timers/$key", component: page(() => import("./pages/timer/ByKey"), "ByKeyPage") });
const types = createRoute({ getParentRoute: () => root, path: "/types", component: page(() => import("./pages/types"), "TypesPage") });
const upload = createRoute({ getParentRoute: () => root, path: "/types/upload", component: page(() => import("./pages/types/Upload"), "UploadPage") });
const type = createRoute({ getParentRoute: () => root, path: "/types/$type", component: page(() => import("./pages/types/Type"), "TypeLayout") });
const typeDetail = createRoute({ getParentRoute: () => type, path: "/", component: page(() => import("./pages/types/Type"), "TypeDetail") });
const typeSchema = createRoute({ getParentRoute: () => type, path: "/schema", component: page(() => import("./pages/types/Type"), "TypeSchema") });
const typeRevisions = createRoute({ getParentRoute: () => type, path: "/revisions", component: page(() => import("./pages/types/Revisions"), "TypeRevisions") });
const typeDryRun = createRoute({ getParentRoute: () => type, path: "/dry-run", component: page(() => import("./pages/types/DryRun"), "TypeDryRun") });
const compensations = createRoute({ getParentRoute: () => root, path: "/compensations", component: page(() => import("./pages/compensations"), "CompensationsPage") });
const compensation = createRoute({ getParentRoute: () => root, path: "/compensations/$id", component: page(() => import("./pages/compensations/One"), "CompensationPage") });

const tree = root.addChildren([
  overview,
  timers,
  register,
  timer,
  byKey,
  types,
  upload,
  type.addChildren([typeDetail, typeSchema, typeRevisions, typeDryRun]),
  compensations,
  compensation,
]);

export const router = createRouter({ routeTree: tree, parseSearch, stringifySearch, scrollRestoration: true, defaultPreload: false, defaultErrorComponent: Broken });

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
